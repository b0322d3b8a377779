"""Loading Pyserini's query and document encoders, with the pooling and norm that the model's files declare."""

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.data.records import version_of
from tour_pyserini.encoders.default_encoder import verify_default_encoder
from tour_pyserini.encoders.grouped_encoder import GroupedQueryEncoder, hide_progress_bar
from tour_pyserini.encoders.model_folder import DEFAULT, EncoderChoice, choose_encoder, fingerprint
from tour_pyserini.encoders.onnx_encoder import OnnxQueryEncoder
from tour_pyserini.encoders.vector_cache import StoredVectorEncoder
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.java import ensure_java

if TYPE_CHECKING:
    from pyserini.encode import DocumentEncoder, QueryEncoder

log = logging.getLogger(__name__)

ENCODER_BACKENDS = ("auto", "torch", "onnx")
"""What can run a query encoder of the class auto; `auto` is torch."""

_LIBRARIES = ("torch", "transformers", "tokenizers", "onnxruntime", "numpy")
_VECTORS_VERSION = 1  # of kept vectors: change it when an encoder of this package computes them in another way

# Pyserini calls the same class `sentence` for queries and `sentence-transformers` for documents; both names work here.
QUERY_NAMES = {"sentence-transformers": "sentence"}
DOCUMENT_NAMES = {"sentence": "sentence-transformers"}


def load_query_encoder(
    spec: str | os.PathLike[str],
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    query_prefix: str | None = None,
    max_length: int = 256,
    device: str = "cpu",
    tokenizer: str | None = None,
    backend: str = "auto",
) -> "GroupedQueryEncoder | OnnxQueryEncoder | QueryEncoder":
    """Load a query encoder: of the class auto without importing Pyserini, or another one of Pyserini's classes.

    Args:
        spec: `default` (all-MiniLM-L6-v2 from the `models` extra), a folder, or a name on the model hub.
        encoder_class: Pyserini's name of the class, such as `auto` or `dpr`. If not given, Pyserini chooses it from a
            name on the model hub; for a folder it is `auto`, because Pyserini searches the whole path for its keywords
            (it would find "ance" in /home/lance).
        pooling: `cls` or `mean`, for the class `auto`; if not given, as a sentence-transformers folder declares, else
            `cls`.
        l2_norm: whether vectors get norm 1, for the class `auto`; if not given, as the folder declares, else not.
        query_prefix: text put before every query, followed by a space.
        max_length: in tokens, for the classes that have this option in Pyserini (`openai-api`, `qwen3`); the others
            truncate a query at their own limit.
        device: `cpu`, `cuda:0`, ...
        tokenizer: folder or name of the tokenizer, if the model's folder has none.
        backend: what runs an encoder of the class auto: `torch`, also called `auto`; or `onnx`, which starts faster and
            whose vectors differ from those of torch by rounding. `onnx` needs a folder and the device cpu.

    Example:
        load_query_encoder("default").encode("who got the first nobel prize in physics")  # float32 [384]
    """
    if backend not in ENCODER_BACKENDS:
        raise TourError(f"unknown back end {backend!r} of the encoder; choose one of {', '.join(ENCODER_BACKENDS)}.")
    choice = choose_encoder(spec, encoder_class, pooling, l2_norm)
    if backend == "onnx":
        return _onnx_encoder(spec, choice, tokenizer=tokenizer, device=device, prefix=query_prefix)
    if not choice.is_folder and encoder_class != "auto":
        return _pyserini_query_encoder(
            choice, encoder_class, tokenizer=tokenizer, device=device, max_length=max_length, prefix=query_prefix
        )
    try:
        return GroupedQueryEncoder(
            choice.name,
            tokenizer_name=tokenizer,
            device=device,
            pooling=choice.pooling,
            l2_norm=choice.l2_norm,
            prefix=query_prefix,
        )
    except Exception as error:  # damaged files of a model cause exceptions of many types
        raise _loading_error(choice.name, error) from error


def _onnx_encoder(
    spec: str | os.PathLike[str], choice: EncoderChoice, *, tokenizer: str | None, device: str, prefix: str | None
) -> OnnxQueryEncoder:
    if not choice.is_folder or device != "cpu" or (tokenizer is not None and not Path(tokenizer).is_dir()):
        raise TourError(
            "ONNX Runtime encodes queries only on cpu, with an encoder of the class auto and a tokenizer in folders; "
            "use --encoder-backend torch."
        )
    try:
        return OnnxQueryEncoder(
            choice.name,
            fingerprint=" ".join([encoder_fingerprint(spec), fingerprint(Path(tokenizer)) if tokenizer else ""]),
            tokenizer_name=tokenizer,
            pooling=choice.pooling,
            l2_norm=choice.l2_norm,
            prefix=prefix,
        )
    except TourError:
        raise
    except Exception as error:  # damaged files of a model cause exceptions of many types
        raise _loading_error(choice.name, error) from error


def _pyserini_query_encoder(
    choice: EncoderChoice,
    encoder_class: str | None,
    *,
    tokenizer: str | None,
    device: str,
    max_length: int,
    prefix: str | None,
) -> "QueryEncoder":
    """An encoder of another class than auto, or of the class that Pyserini chooses for a name on the model hub."""
    ensure_java()
    from pyserini.encode import query_encoder_class_map
    from pyserini.search.faiss.__main__ import init_query_encoder

    encoder_class = _pyserini_class_name(encoder_class, QUERY_NAMES, query_encoder_class_map)
    try:
        hide_progress_bar()
        encoder = init_query_encoder(
            encoder=choice.name,
            encoder_class=encoder_class,
            tokenizer_name=tokenizer,
            topics_name=None,
            encoded_queries=None,
            device=device,
            max_length=max_length,
            pooling=choice.pooling,
            l2_norm=choice.l2_norm,
            prefix=prefix,
        )
    except Exception as error:
        raise _loading_error(choice.name, error) from error
    return _without_gradients(encoder, prefix)


def query_encoder_with_cache(
    spec: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    tokenizer: str | None = None,
    backend: str = "auto",
    **options: Any,
) -> Any:
    """A query encoder that keeps the vectors of queries in a file, and loads its model when a query is not there.

    Only encoders of the class auto in a folder are kept: their content identifies them. Any other encoder is loaded.

    Args:
        spec: the encoder.
        path: the file of vectors.
        encoder_class: this and the arguments below are those of `load_query_encoder`.
        pooling: the pooling.
        l2_norm: whether vectors get norm 1.
        tokenizer: folder or name of the tokenizer.
        backend: what runs the encoder.
        options: the other arguments.
    """
    options |= {"encoder_class": encoder_class, "tokenizer": tokenizer, "backend": backend}
    load = partial(load_query_encoder, spec, pooling=pooling, l2_norm=l2_norm, **options)
    choice = choose_encoder(spec, encoder_class, pooling, l2_norm)
    if not choice.is_folder or (tokenizer is not None and not Path(tokenizer).is_dir()):
        return load()
    identity = options | {
        "encoder": encoder_fingerprint(spec),
        "tokenizer": fingerprint(Path(tokenizer)) if tokenizer else None,
        "pooling": choice.pooling,
        "l2_norm": choice.l2_norm,
        "backend": "onnx" if backend == "onnx" else "torch",
        "libraries": [version_of(name) for name in _LIBRARIES],
        "processor": cpu_flags(),  # the same product of matrices may be rounded differently on another one
        "version": _VECTORS_VERSION,
    }
    return StoredVectorEncoder(load, identity, path, name=os.fspath(spec))


def load_document_encoder(
    spec: str | os.PathLike[str],
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    prefix: str | None = None,
    device: str = "cpu",
    tokenizer: str | None = None,
) -> "DocumentEncoder":
    """Load one of Pyserini's document encoders; the arguments are those of `load_query_encoder`.

    The maximum length is an argument of the encoder's `encode(texts=[...], max_length=256)`, which gives
    float32 [n, d].
    """
    ensure_java()
    from pyserini.encode import AutoDocumentEncoder, document_encoder_class_map
    from pyserini.encode.__main__ import init_encoder
    from pyserini.util import resolve_device

    encoder_class = _pyserini_class_name(encoder_class, DOCUMENT_NAMES, document_encoder_class_map)
    choice = choose_encoder(spec, encoder_class, pooling, l2_norm)
    if tokenizer and not choice.is_folder:
        raise TourError("Pyserini's document encoders use the tokenizer of the model; do not give another one.")
    try:
        hide_progress_bar()
        if choice.is_folder:
            encoder = AutoDocumentEncoder(
                model_name=choice.name,
                tokenizer_name=tokenizer,
                device=resolve_device(device, backend="torch"),
                pooling=choice.pooling,
                l2_norm=choice.l2_norm,
                prefix=prefix,
            )
        else:
            encoder = init_encoder(
                encoder=choice.name,
                encoder_class=encoder_class,
                device=device,
                pooling=choice.pooling,
                l2_norm=choice.l2_norm,
                prefix=prefix,
                multimodal=False,
                explicit_truncate=False,
            )
    except Exception as error:
        raise _loading_error(choice.name, error) from error
    return _without_gradients(encoder, prefix)


def encoder_fingerprint(spec: str | os.PathLike[str]) -> str:
    """The fingerprint of an encoder: a hash of its folder's files, or its name on the model hub."""
    folder = verify_default_encoder() if spec == DEFAULT else Path(spec)
    return fingerprint(folder) if folder.is_dir() else str(spec)


def _pyserini_class_name(encoder_class: str | None, names: dict[str, str], classes: dict[str, Any]) -> str | None:
    if encoder_class is None:
        return None
    encoder_class = names.get(encoder_class, encoder_class)
    if encoder_class not in classes:
        raise TourError(f"unknown encoder class {encoder_class!r}; choose one of {', '.join(sorted(classes))}.")
    return encoder_class


def _loading_error(name: str, error: Exception) -> TourError:
    reason = first_line(error).rstrip(".:")
    return TourError(f"cannot load the encoder {name}: {reason}.")


def _without_gradients(encoder: Any, prefix: str | None) -> Any:
    """The encoder with gradients turned off (Pyserini leaves them on); warns if the encoder ignores the prefix."""
    if hasattr(getattr(encoder, "model", None), "requires_grad_"):
        encoder.model.requires_grad_(False)
    if prefix and getattr(encoder, "prefix", None) != prefix:
        log.warning("%s ignores the prefix %r; only the class auto uses it", type(encoder).__name__, prefix)
    return encoder
