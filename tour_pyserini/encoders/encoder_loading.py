"""Loading query and document encoders: as their own files say, or one of Pyserini's classes by its name."""

import logging
import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tour_pyserini.encoders.graph_runner import open_encoder_graph
from tour_pyserini.encoders.model_folder import encoder_folder, fingerprint
from tour_pyserini.encoders.pyserini_encoders import (
    load_pyserini_document_encoder,
    load_pyserini_query_encoder,
    pyserini_class,
)
from tour_pyserini.encoders.sentence_model import ModelOptions, is_modular, load_sentence_model, unused_prompt
from tour_pyserini.encoders.static_model import is_static, static_runner
from tour_pyserini.encoders.text_encoders import TextDocumentEncoder, TextEncoder, TextQueryEncoder
from tour_pyserini.encoders.text_runner import FunctionRunner, TextRunner, TorchRunner
from tour_pyserini.encoders.vector_cache import StoredVectorEncoder
from tour_pyserini.errors import TourError
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.onnx_graphs import GraphError
from tour_pyserini.support.optional import version_of

log = logging.getLogger(__name__)

ENCODER_BACKENDS = ("auto", "torch", "onnx")
"""What can run an encoder; `auto` is ONNX Runtime where it was measured to be faster, else torch."""
PRECISIONS = ("fp32", "int8")

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "onnx", "onnxruntime", "numpy")
_VECTORS_VERSION = 2  # of kept vectors: change it when an encoder of this package computes them in another way


def load_query_encoder(
    spec: Any,
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    truncate_dim: int | None = None,
    query_prefix: str | None = None,
    max_length: int = 256,
    device: str = "cpu",
    dtype: str = "auto",
    tokenizer: str | None = None,
    backend: str = "auto",
    threads: int | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """Load a query encoder: as the model's own files say, or one of Pyserini's classes.

    Args:
        spec: `default` (all-MiniLM-L6-v2 from the `models` extra), a folder, or a name on the model hub; a
            `SentenceTransformer`; a function from a list of texts to vectors [n, d]; or a query encoder, which is
            returned as it is.
        encoder_class: Pyserini's name of a class, such as `dpr`. If not given, a model with `modules.json` is run as
            this file says; for a name on the hub without it, Pyserini's class is chosen by the name as Pyserini does;
            everything else is a transformer (also called `auto`).
        pooling: `cls`, `mean`, `max`, `last` or `weighted`; if not given, as the model's files say, else `cls`.
        l2_norm: whether vectors get norm 1; if not given, as the model's files say, else not.
        truncate_dim: dimensions that are kept of a vector (Matryoshka); if not given, as the model's files say.
        query_prefix: text put before every query, followed by a space, instead of the model's own prompt; "" for none.
        max_length: in tokens, for the classes that have this option in Pyserini (`openai-api`, `qwen3`); the others
            cut a query at their own limit.
        device: `cpu`, `cuda:0`, ...
        dtype: `auto`, `float32`, `bfloat16` or `float16`: the numbers that the model computes with. `auto` is float32
            on a CPU and what the model's files say on a GPU.
        tokenizer: folder or name of the tokenizer, if not the model's own.
        backend: `onnx`, `torch`, or `auto`, the one that is faster on this machine. Their vectors differ by rounding.
        threads: CPU threads; by default all cores.
        trust_remote_code: whether Python code that the model brings along may be run.

    Example:
        load_query_encoder("default").encode("who got the first nobel prize in physics")  # float32 [384]
    """
    options = ModelOptions(
        pooling=pooling,
        l2_norm=l2_norm,
        truncate_dim=truncate_dim,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    if not isinstance(spec, str | os.PathLike):
        return _from_object(spec, "query", options, encoder_class, prefix=query_prefix)
    if kind := pyserini_class(spec, encoder_class, trust_remote_code=trust_remote_code):
        _refuse_engine(kind, backend, "fp32")
        return load_pyserini_query_encoder(spec, kind, options, max_length=max_length, prefix=query_prefix)
    engine: dict[str, Any] = {"backend": backend, "threads": threads}
    runner = _runner(spec, "query", options, encoder_class=encoder_class, prefix=query_prefix, **engine)
    return TextQueryEncoder(runner, prefix=query_prefix)


def load_document_encoder(
    spec: Any,
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    truncate_dim: int | None = None,
    prefix: str | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    tokenizer: str | None = None,
    backend: str = "auto",
    precision: str = "fp32",
    batch_size: int | None = None,
    threads: int | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """Load a document encoder; the arguments are those of `load_query_encoder`, and two more.

    The maximum length is an argument of the encoder's `encode(texts=[...], max_length=256)`, which gives
    float32 [n, d].

    Args:
        spec: the encoder.
        encoder_class: Pyserini's name of a class.
        pooling: the pooling.
        l2_norm: whether vectors get norm 1.
        truncate_dim: dimensions that are kept.
        prefix: text put before every document, followed by a space, instead of the model's own prompt; "" for none.
        device: the device.
        dtype: the numbers that the model computes with.
        tokenizer: the tokenizer, if not the model's own.
        backend: what runs the model.
        precision: `fp32`, or `int8` for 8-bit weights by ONNX Runtime: faster, with slightly other vectors.
        batch_size: most documents that torch encodes at once; by default as many as fit a number of tokens.
        threads: CPU threads.
        trust_remote_code: whether Python code that the model brings along may be run.
    """
    options = ModelOptions(
        pooling=pooling,
        l2_norm=l2_norm,
        truncate_dim=truncate_dim,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    if not isinstance(spec, str | os.PathLike):
        return _from_object(spec, "document", options, encoder_class, prefix=prefix)
    if kind := pyserini_class(spec, encoder_class, trust_remote_code=trust_remote_code):
        _refuse_engine(kind, backend, precision)
        return load_pyserini_document_encoder(spec, kind, options, prefix=prefix)
    engine: dict[str, Any] = {"backend": backend, "precision": precision, "batch_size": batch_size, "threads": threads}
    runner = _runner(spec, "document", options, encoder_class=encoder_class, prefix=prefix, **engine)
    return TextDocumentEncoder(runner, prefix=prefix)


def query_encoder_with_cache(
    spec: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    encoder_class: str | None = None,
    tokenizer: str | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> Any:
    """A query encoder that keeps the vectors of queries in a file, and loads its model when a query is not there.

    Encoders of Pyserini's classes are loaded at once: nothing identifies their content.

    Args:
        spec: the encoder.
        path: the file of vectors.
        encoder_class: this and the arguments below are those of `load_query_encoder`.
        tokenizer: folder or name of the tokenizer.
        trust_remote_code: whether Python code that the model brings along may be run.
        options: the other arguments.
    """
    options |= {"encoder_class": encoder_class, "tokenizer": tokenizer, "trust_remote_code": trust_remote_code}
    load = partial(load_query_encoder, spec, **options)
    if pyserini_class(spec, encoder_class, trust_remote_code=trust_remote_code) or (
        tokenizer is not None and not Path(tokenizer).is_dir()
    ):
        return load()
    folder = encoder_folder(spec, trust_remote_code=trust_remote_code)
    asked = ModelOptions(device=options.get("device", "cpu"), dtype=options.get("dtype", "auto"))
    identity = options | {
        "encoder": fingerprint(folder),
        "tokenizer": fingerprint(Path(tokenizer)) if tokenizer else None,
        "backend": backend_for(options.get("backend", "auto"), asked),
        "libraries": [version_of(name) for name in _LIBRARIES],
        "processor": cpu_flags(),  # the same product of matrices may be rounded differently on another one
        "version": _VECTORS_VERSION,
    }
    return StoredVectorEncoder(load, identity, path, name=os.fspath(spec))


def encoder_fingerprint(
    spec: str | os.PathLike[str], encoder_class: str | None = None, *, trust_remote_code: bool = False
) -> str:
    """The fingerprint of an encoder: a hash of its files, or the name on the model hub of one of Pyserini's classes."""
    if not Path(spec).is_dir() and pyserini_class(spec, encoder_class, trust_remote_code=trust_remote_code):
        return str(spec)
    return fingerprint(encoder_folder(spec, trust_remote_code=trust_remote_code))


def backend_for(backend: str, options: ModelOptions, precision: str = "fp32") -> str:
    """What runs an encoder: `onnx` or `torch`.

    On x86 processors with AVX2 or AVX-512, ONNX Runtime was measured to be faster. Other processors were not measured;
    they use torch, which needs no export. GPUs, and numbers other than float32, use torch too.
    """
    if backend not in ENCODER_BACKENDS:
        raise TourError(f"unknown back end {backend!r} of the encoder; choose one of {', '.join(ENCODER_BACKENDS)}.")
    if precision not in PRECISIONS:
        raise TourError(f"unknown precision {precision!r} of the encoder; choose one of {', '.join(PRECISIONS)}.")
    able = options.device == "cpu" and options.dtype in ("auto", "float32")
    able = able and (options.tokenizer is None or Path(options.tokenizer).is_dir())
    if not able and (backend == "onnx" or precision == "int8"):
        raise TourError(
            "ONNX Runtime, which int8 needs too, encodes only on the device cpu, with float32 and a tokenizer in a "
            "folder; use --encoder-backend torch and fp32."
        )
    if precision == "int8":
        if backend == "torch":
            raise TourError("int8 needs --encoder-backend onnx; leave one of the two out.")
        return "onnx"
    if backend != "auto":
        return backend
    fast = able and "avx2" in (cpu_flags() or ())
    return "onnx" if fast and find_spec("onnx") and find_spec("onnxruntime") else "torch"


def _runner(
    spec: str | os.PathLike[str],
    role: str,
    options: ModelOptions,
    *,
    encoder_class: str | None,
    prefix: str | None,
    backend: str,
    precision: str = "fp32",
    batch_size: int | None = None,
    threads: int | None = None,
) -> TextRunner:
    """What runs the encoder of a name or a folder."""
    chosen = backend_for(backend, options, precision)
    folder = encoder_folder(spec, trust_remote_code=options.trust_remote_code)
    if is_static(folder):
        _refuse_engine("model2vec", backend, precision)
        return static_runner(folder, options)
    if prefix is None and (name := unused_prompt(folder, role)):
        log.warning(
            "%s: its prompt %r is not used, because sentence-transformers uses only the one named %r; give it with %s",
            spec,
            name,
            role,
            "--query-prefix" if role == "query" else "--prefix",
        )
    bare = not is_modular(folder)
    if bare and encoder_class in ("sentence", "sentence-transformers") and options.pooling is None:
        raise TourError(
            f"the encoder {spec} has no modules.json and is no model of sentence-transformers; "
            "leave --encoder-class out, or say --pooling mean if this is how it was trained."
        )
    if chosen == "onnx":
        try:
            return open_encoder_graph(folder, role, options, threads=threads, precision=precision)
        except GraphError as error:
            if backend == "onnx" or precision == "int8":
                raise TourError(f"{spec}: {error}; use --encoder-backend torch and fp32.") from error
            log.info("%s: %s; using torch instead", spec, error)
    model = load_sentence_model(folder, options)
    return TorchRunner(model, role, bare=bare, batch_size=batch_size, threads=threads)


def _from_object(given: Any, role: str, options: ModelOptions, encoder_class: str | None, *, prefix: str | None) -> Any:
    """An encoder around a `SentenceTransformer` or a function; another encoder as it is."""
    for name in ("pooling", "l2_norm", "truncate_dim", "tokenizer"):
        if getattr(options, name) is not None:
            raise TourError(f"an encoder that is given as an object is used as it is; leave {name} out.")
    if encoder_class is not None:
        raise TourError("an encoder that is given as an object has its class already; leave encoder_class out.")
    make: type[TextEncoder] = TextQueryEncoder if role == "query" else TextDocumentEncoder
    library = sys.modules.get("sentence_transformers")  # not imported: then the object is no model of it
    if library is not None and isinstance(given, library.SentenceTransformer):
        return make(TorchRunner(given, role), prefix=prefix)
    if hasattr(given, "encode"):
        return given
    if callable(given):
        return make(FunctionRunner(given), prefix=prefix)
    raise TourError(
        f"{type(given).__name__} is no encoder; give a name, a folder, a SentenceTransformer or a function."
    )


def _refuse_engine(kind: str, backend: str, precision: str) -> None:
    if backend not in ("auto", "torch") or precision != "fp32":
        raise TourError(
            f"ONNX Runtime and int8 are not for encoders of the class {kind}; use --encoder-backend torch and fp32."
        )
