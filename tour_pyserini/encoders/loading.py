"""Loading query and document encoders: as their own files say, or one of Pyserini's classes by its name."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.encoders.encoder import (
    TextDocumentEncoder,
    TextEncoder,
    TextQueryEncoder,
    TextRunner,
)
from tour_pyserini.encoders.graph_runner import GraphRunner, StoredGraphRunner
from tour_pyserini.encoders.pyserini_encoders import load_pyserini_encoder, pyserini_class
from tour_pyserini.encoders.query_vectors import CachedQueryEncoder
from tour_pyserini.encoders.sentence_model import (
    ModelOptions,
    TorchRunner,
    encoder_folder,
    fingerprint,
    is_modular,
    load_sentence_model,
)
from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import cpu_flags
from tour_pyserini.support.model_files import read_json
from tour_pyserini.support.onnx_graphs import GraphError, onnx_is_faster
from tour_pyserini.support.packages import import_optional, version_of

log = logging.getLogger(__name__)

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "onnx", "onnxruntime", "numpy")
_VECTORS_VERSION = 2  # of kept vectors: change it when an encoder of this package computes them in another way
_STATIC = {"embeddings", "weights", "mapping"}  # all tensors that a model of model2vec may have


class _FunctionRunner(TextRunner):
    """A function from a list of texts to vectors [n, d]."""

    backend = "function"

    def __init__(self, function: Callable[[list[str]], Any], **settings: Any) -> None:
        self._function, self.settings = function, settings

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        if max_length is not None:
            raise TourError("a function reads texts as they are; leave the maximum length out.")
        vectors = np.asarray(self._function([prompt + text for text in texts]), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise TourError(f"the encoder function gives {list(vectors.shape)} for {len(texts)} texts, not [n, d].")
        return vectors


def load_query_encoder(
    spec: Any,
    *,
    encoder_class: str | None = None,
    query_prefix: str | None = None,
    max_length: int = 256,
    cache: str | os.PathLike[str] | None = None,
    **model: Any,
) -> Any:
    """Load a query encoder: as the model's own files say, or one of Pyserini's classes.

    Args:
        spec: `default` (all-MiniLM-L6-v2 from the `models` extra), a folder, or a name on the model hub; a
            `SentenceTransformer`; a function from a list of texts to vectors [n, d]; or a query encoder, which is
            returned as it is.
        encoder_class: Pyserini's name of a class, such as `dpr`. If not given, a model with `modules.json` is run as
            this file says; for a name on the hub without it, Pyserini's class is chosen by the name as Pyserini does;
            everything else is a transformer (also called `auto`) that needs `pooling`.
        query_prefix: text put before every query, followed by a space, instead of the model's own prompt; "" for none.
        max_length: in tokens, for the classes that have this option in Pyserini (`openai-api`, `qwen3`); the others
            cut a query at their own limit.
        cache: a file that keeps the vectors of queries; the model is then loaded when a query is not there. An encoder
            or a tokenizer whose content nothing identifies is loaded at once, and its vectors are not kept.
        model: the fields of `ModelOptions`: `pooling`, `l2_norm`, `truncate_dim`, `tokenizer`, `device`, `dtype`,
            `trust_remote_code`, `backend` and `threads`.

    Raises:
        TourError: if it cannot be loaded, or if neither its files nor `pooling` say how it pools.

    Example:
        load_query_encoder("default").encode("who got the first nobel prize in physics")  # float32 [384]
    """
    options = ModelOptions(**model)

    def load() -> Any:
        return _load(spec, "query", encoder_class, query_prefix, options, max_length=max_length)

    is_file = isinstance(spec, str | os.PathLike) and not pyserini_class(spec, encoder_class, options.trust_remote_code)
    if cache is None or not is_file or (options.tokenizer is not None and not Path(options.tokenizer).is_dir()):
        return load()
    folder = encoder_folder(spec, trust_remote_code=options.trust_remote_code)
    _check_pooling(spec, folder, options.pooling)
    asked = asdict(options)
    identity = {name: asked[name] for name in asked if name not in ("threads", "batch_size")} | {
        "encoder": fingerprint(folder),
        "tokenizer": fingerprint(Path(options.tokenizer)) if options.tokenizer else None,
        "query_prefix": query_prefix,
        "backend": _backend_for(options),
        "libraries": [version_of(name) for name in _LIBRARIES],
        "processor": cpu_flags(),  # the same product of matrices may be rounded differently on another one
        "version": _VECTORS_VERSION,
    }
    return CachedQueryEncoder(load, identity, cache, name=os.fspath(spec))


def load_document_encoder(
    spec: Any, *, encoder_class: str | None = None, prefix: str | None = None, **model: Any
) -> Any:
    """Load a document encoder; `spec`, `encoder_class` and `model` are those of `load_query_encoder`.

    The maximum length is an argument of the encoder's `encode(texts=[...], max_length=256)`, which gives
    float32 [n, d].

    Args:
        spec: the encoder.
        encoder_class: Pyserini's name of a class.
        prefix: text put before every document, followed by a space, instead of the model's own prompt; "" for none.
        model: the fields of `ModelOptions`, also `precision` and `batch_size`.
    """
    return _load(spec, "document", encoder_class, prefix, ModelOptions(**model))


def _load(
    spec: Any, role: str, encoder_class: str | None, prefix: str | None, options: ModelOptions, **pyserini: Any
) -> Any:
    """An encoder of queries or documents (`role`)."""
    make: type[TextEncoder] = TextQueryEncoder if role == "query" else TextDocumentEncoder
    if isinstance(spec, str | os.PathLike):
        if kind := pyserini_class(spec, encoder_class, options.trust_remote_code):
            _refuse_onnx(kind, options)
            return load_pyserini_encoder(spec, role, kind, options, prefix=prefix, **pyserini)
        return make(_runner(spec, role, options, prefix=prefix), prefix=prefix)
    for name in ("pooling", "l2_norm", "truncate_dim", "tokenizer"):
        if getattr(options, name) is not None:
            raise TourError(f"an encoder that is given as an object is used as it is; leave {name} out.")
    library = sys.modules.get("sentence_transformers")  # not imported: then the object is no model of it
    if library is not None and isinstance(spec, library.SentenceTransformer):
        return make(TorchRunner(spec, role), prefix=prefix)
    if hasattr(spec, "encode"):
        return spec
    if callable(spec):
        return make(_FunctionRunner(spec), prefix=prefix)
    raise TourError(f"{type(spec).__name__} is no encoder; give a name, a folder, a SentenceTransformer or a function.")


def encoder_fingerprint(
    spec: str | os.PathLike[str], encoder_class: str | None = None, *, trust_remote_code: bool = False
) -> str:
    """The fingerprint of an encoder: a hash of its files, or the name on the model hub of one of Pyserini's classes."""
    if not Path(spec).is_dir() and pyserini_class(spec, encoder_class, trust_remote_code):
        return str(spec)
    return fingerprint(encoder_folder(spec, trust_remote_code=trust_remote_code))


def _backend_for(options: ModelOptions) -> str:
    """What runs an encoder: `onnx` or `torch`; numbers other than float32 use torch."""
    known = options.tokenizer is None or Path(options.tokenizer).is_dir()
    able = known and options.device == "cpu" and options.dtype in ("auto", "float32")
    if options.backend == "onnx" or options.precision == "int8":
        if not able or options.backend == "torch":
            raise TourError(
                "ONNX Runtime, which int8 needs too, encodes only on the device cpu, with float32 and a tokenizer in a "
                "folder; use --encoder-backend torch and fp32."
            )
        return "onnx"
    return "onnx" if options.backend == "auto" and able and onnx_is_faster(options.device) else "torch"


def _check_pooling(spec: str | os.PathLike[str], folder: Path, pooling: str | None) -> None:
    """Refuse to guess a pooling: vectors would have the right size and the wrong meaning."""
    if pooling is None and not (is_modular(folder) or _is_static(folder)):
        read_json(folder / "config.json")  # a damaged one is the first thing to say
        raise TourError(
            f"the encoder {spec} does not say how it pools the vectors of tokens: it has no modules.json of "
            "sentence-transformers; say how it was trained with --pooling mean|cls|last, and with --l2-norm if its "
            "vectors have norm 1."
        )


def _runner(spec: str | os.PathLike[str], role: str, options: ModelOptions, *, prefix: str | None) -> TextRunner:
    """What runs the encoder of a name or a folder."""
    chosen = _backend_for(options)
    folder = encoder_folder(spec, trust_remote_code=options.trust_remote_code)
    if _is_static(folder):
        _refuse_onnx("model2vec", options)
        return _static_runner(folder, options)
    _check_pooling(spec, folder, options.pooling)
    if StoredGraphRunner.accepts(folder):
        if options.backend == "torch" or options.device != "cpu" or options.tokenizer or options.pooling == "weighted":
            raise TourError(
                f"the encoder {spec} is an ONNX graph with its tokenizer: it runs on the device cpu with "
                "--pooling mean|cls|last|max; leave --encoder-backend and --tokenizer out."
            )
        return StoredGraphRunner(folder, role, options)
    if prefix is None and (name := _unused_prompt(folder, role)):
        log.warning(
            "%s: its prompt %r is not used, because sentence-transformers uses only the one named %r; give it with %s",
            spec,
            name,
            role,
            "--query-prefix" if role == "query" else "--prefix",
        )
    if chosen == "onnx":
        try:
            return GraphRunner.of_model(folder, role, options)
        except GraphError as error:
            if options.backend == "onnx" or options.precision == "int8":
                raise TourError(f"{spec}: {error}; use --encoder-backend torch and fp32.") from error
            log.info("%s: %s; using torch instead", spec, error)
    return TorchRunner(load_sentence_model(folder, options), role, options, bare=not is_modular(folder))


def _refuse_onnx(kind: str, options: ModelOptions) -> None:
    if options.backend == "onnx" or options.precision == "int8":
        raise TourError(
            f"ONNX Runtime and int8 are not for encoders of the class {kind}; use --encoder-backend torch and fp32."
        )


def _unused_prompt(folder: Path, role: str) -> str | None:
    """The name of a prompt in a model's files that seems to be meant for a role, but that its library does not use.

    `encode_query` and `encode_document` of sentence-transformers use the prompts named `query` and `document`. If there
    is no such prompt, it is empty: neither the default prompt nor one named `passage` takes its place.
    """
    settings = read_json(folder / "config_sentence_transformers.json")
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if prompts.get(role):
        return None
    meant = ("passage", "corpus") if role == "document" else ()
    return next((name for name in (*meant, default) if name != "query" and prompts.get(name)), None)


def _is_static(folder: Path) -> bool:
    """Whether the folder holds a model of model2vec alone; with `modules.json`, sentence-transformers runs it."""
    path = folder / "model.safetensors"
    if is_modular(folder) or not path.is_file() or not (folder / "tokenizer.json").is_file():
        return False
    try:
        with import_optional("safetensors").safe_open(path, "np") as weights:
            return "embeddings" in weights.keys() and set(weights.keys()) <= _STATIC  # noqa: SIM118 (not a mapping)
    except Exception:  # a damaged file: whoever loads the folder says what is wrong
        return False


def _static_runner(folder: Path, options: ModelOptions) -> _FunctionRunner:
    """A table of token vectors as a function; model2vec itself runs it.

    Sentence-transformers reads such a folder too, but does not leave out unknown words and cut texts as model2vec does.
    """
    for name in ("pooling", "l2_norm", "tokenizer"):
        if getattr(options, name) is not None:
            raise TourError(f"the static embeddings in {folder} have no {name} to choose; leave it out.")
    library = import_optional("model2vec", extra="static")
    model = library.StaticModel.from_pretrained(str(folder), dimensionality=options.truncate_dim)
    return _FunctionRunner(
        model.encode, pooling="mean", l2_norm=bool(model.normalize), truncate_dim=options.truncate_dim
    )
