"""Load a re-ranker from a name, a folder or an object, and register new kinds of re-ranker folders."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import (
    causal_lm,
    cross_encoder_folder,
    onnx_folder,
    r2d2,
    seq2seq,
    sequence_classification,
)
from tour_pyserini.rerankers.cross_encoder import CrossEncoderReranker, is_cross_encoder
from tour_pyserini.rerankers.default_reranker import verify_default_reranker
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.remote import is_service_address, load_remote
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.support.devices import DTYPES
from tour_pyserini.support.model_files import download_checkpoint

log = logging.getLogger(__name__)


class RerankerKind(Protocol):
    """A module or object that recognises one kind of model folder and loads it.

    Four attributes are optional:

    - `BACKENDS: tuple[str, ...]`, the back ends ("onnx", "torch") that can run this kind; empty if it needs none.
      `load_reranker` then refuses any other; without it, `load` has to check `options.backend` and `options.precision`.
    - `DTYPES: tuple[str, ...]`, the types of numbers that it can be run in; `load_reranker` warns that another one does
      not apply. Without it, `load` has to check `options.dtype`.
    - `TAKES_PROMPT: bool`, whether `load` uses `options.prompt`; without it, `load_reranker` refuses a prompt.
    - `FILES: str`, what such a folder holds, for the message about a folder of no kind.
    """

    def accepts(self, folder: Path) -> bool:
        """Whether the folder looks like this kind."""
        ...

    def load(self, folder: Path, options: Options, *, name: str) -> Reranker:
        """Load the re-ranker in the folder; `name` is what the user called it, for messages."""
        ...


BUILT_IN_KINDS: Mapping[str, RerankerKind] = MappingProxyType(
    {
        "seq2seq": seq2seq,
        "r2d2": r2d2,
        "cross-encoder": cross_encoder_folder,
        "causal-lm": causal_lm,
        "sequence-classification": sequence_classification,
        "onnx": onnx_folder,
    }
)
"""Tried in this order. To add a kind, write a module with `accepts` and `load` and add a line here and its import."""

_registered_kinds: dict[str, RerankerKind] = {}


def load_reranker(
    spec: Any,
    *,
    max_length: int = 512,
    batch_size: int | None = None,
    device: str = "cpu",
    threads: int | None = None,
    backend: str = "auto",
    precision: str | None = None,
    dtype: str = "auto",
    prompt: str | None = None,
    trust_remote_code: bool = False,
) -> Reranker:
    """Load the re-ranker that `spec` names.

    Args:
        spec: "default"; a folder or a Hugging Face name with a cross-encoder (a classifier, or modules of
            sentence-transformers), a language model that answers yes or no, a monoT5-like or an R2-D2 checkpoint; a
            folder with `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`; a folder of a kind that was added by
            `register_reranker_kind`; the address of a service, such as `http://host:8080/rerank`; or an object with
            `predict`, used as it is (except that the sigmoid of a `sentence_transformers.CrossEncoder` is switched
            off). A folder with a checkpoint and an ONNX graph is read as a checkpoint.
        max_length: tokens per pair, including special tokens. The passage is cut and the query kept, unless the query
            alone does not fit; then the longer of the two is cut. A service cuts at its own maximum.
        batch_size: largest number of pairs per batch; by default as many as fit a number of padded tokens. On a CPU,
            ONNX Runtime always gets one pair per call. For a service, passages per request; 32 by default.
        device: "cpu", or another device by its name in torch or ONNX Runtime ("cuda").
        threads: CPU threads; by default all cores. For a service, requests at a time; 8 by default.
        backend: what runs a checkpoint: "onnx" (from a graph that is exported once and kept in the cache folder),
            "torch", or "auto", the faster of the two on this machine.
        precision: "fp32", or "int8" for 8-bit weights: faster, but with other scores. By default fp32 for checkpoints;
            ONNX models are run as they are.
        dtype: the numbers that a checkpoint computes with: "float32", "bfloat16", "float16", or "auto": float32 on a
            CPU (weights of more than 4 GB in half precision as they are stored), as stored on a GPU. An ONNX folder,
            such as that of "default", and R2-D2 compute with their own numbers in any case; a warning says so.
        prompt: what a language model reads around query and passage, if its files and its name do not say it: a name
            in `rerankers.prompts.FAMILIES`, the path of a JSON file with `prompt`, `yes` and `no`, or "pair" for a
            classifier that reads the two texts alone.
        trust_remote_code: run Python code that the model's folder or name brings along; a model with such code is
            refused otherwise.

    Raises:
        TourError: when the model does not exist, is damaged or is not a re-ranker.

    Example:
        >>> reranker = load_reranker("default")  # doctest: +SKIP
        >>> reranker.predict([("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")])  # doctest: +SKIP
        array([9.1084156])
    """
    options = Options(
        max_length=max_length,
        batch_size=batch_size,
        device=device,
        threads=threads,
        backend=backend,
        precision=precision,
        dtype=dtype,
        prompt=prompt,
        trust_remote_code=trust_remote_code,
    )
    if hasattr(spec, "predict"):
        if prompt is not None:
            raise TourError("a prompt is for the folder or the name of a re-ranker; an object has its own.")
        return CrossEncoderReranker(spec, batch_size=batch_size) if is_cross_encoder(spec) else spec
    if not isinstance(spec, str | os.PathLike):
        raise TourError(f"a re-ranker is a name, a folder or an object with predict, not {type(spec).__name__}.")
    if is_service_address(spec):
        return load_remote(str(spec), options)
    folder = model_folder(spec, code=trust_remote_code)
    name = os.fspath(spec)
    for kind_name, kind in {**_registered_kinds, **BUILT_IN_KINDS}.items():
        if kind.accepts(folder):
            _check_options(kind, options, name)
            reranker = kind.load(folder, options, name=name)
            if not hasattr(reranker, "predict"):
                raise TourError(
                    f"the re-ranker kind {kind_name!r} loaded {name} as an object of type {type(reranker).__name__}, "
                    "which has no predict; its load must return a re-ranker."
                )
            return reranker
    missing = [kind.FILES for kind in BUILT_IN_KINDS.values() if hasattr(kind, "FILES")]
    if _registered_kinds:
        missing.append(f"a folder of the registered kinds {', '.join(_registered_kinds)}")
    raise TourError(f"{folder} holds no re-ranker: neither {', nor '.join(missing)}.")


def register_reranker_kind(name: str, kind: RerankerKind) -> None:
    """Add a kind of re-ranker folder that `load_reranker` can load.

    Registered kinds are tried before the built-in ones, in the order of registration, so that a kind can handle
    folders that a built-in kind would accept too.

    Args:
        name: a name that no other kind has.
        kind: an object or a module with the functions `accepts` and `load` of `RerankerKind`.

    Raises:
        TourError: when the name is empty or already used, or a function is missing.

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
    if not isinstance(name, str) or not name:
        raise TourError(f"the name of a re-ranker kind must be a non-empty text, not {name!r}.")
    if name in _registered_kinds or name in BUILT_IN_KINDS:
        raise TourError(f"there is already a re-ranker kind named {name!r}; choose another name.")
    for function in ("accepts", "load"):
        if not callable(getattr(kind, function, None)):
            raise TourError(f"the re-ranker kind {name!r} has no function {function}; see RerankerKind.")
    _registered_kinds[name] = kind


def _check_options(kind: RerankerKind, options: Options, name: str) -> None:
    """Refuse options that a kind does not take."""
    backends = getattr(kind, "BACKENDS", None)
    if backends is not None:
        options.check_backends(backends, name)
    dtypes = getattr(kind, "DTYPES", DTYPES)
    if options.dtype not in dtypes:
        # In a search, the same option is for the encoder too, which may be able to use it.
        log.warning(
            "the dtype %s does not apply to the re-ranker %s, which has numbers of its own", options.dtype, name
        )
    if options.prompt is not None and not getattr(kind, "TAKES_PROMPT", False):
        raise TourError(f"{name} takes no prompt (--reranker-prompt): its files say what it reads; leave it out.")


def has_registered_kinds() -> bool:
    """Whether kinds of re-rankers were added by `register_reranker_kind`."""
    return bool(_registered_kinds)


def model_folder(spec: str | os.PathLike[str], *, code: bool = False) -> Path:
    """The folder of a model: of `default`, at that path, or with the downloaded files of that Hugging Face name.

    Args:
        spec: `default`, a path or a name.
        code: whether Python files are downloaded too.
    """
    if spec == "default":
        return verify_default_reranker()
    name = os.fspath(spec)
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path
    if name and path.exists():
        raise TourError(f"the re-ranker {name} is a file; give the folder that holds the model.")
    only_a_path = not isinstance(spec, str) or path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if only_a_path or not name:
        raise TourError(f"the re-ranker folder {name!r} does not exist; check the path.")
    return download_checkpoint(name, code=code)
