"""Query and document encoders: Pyserini's own, with the settings that their files declare."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.encoders.default_encoder import verify_default_encoder
from tour_pyserini.encoders.model_folder import DEFAULT, choose_encoder, fingerprint
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.java import ensure_java

if TYPE_CHECKING:
    from pyserini.encode import DocumentEncoder, QueryEncoder

__all__ = ["encoder_fingerprint", "load_document_encoder", "load_query_encoder", "verify_default_encoder"]

log = logging.getLogger(__name__)

# One class, two names in Pyserini.
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
) -> "QueryEncoder":
    """Load one of Pyserini's query encoders.

    Args:
        spec: `default` (all-MiniLM-L6-v2 from the `models` extra), a folder, or a name on the model hub.
        encoder_class: Pyserini's keyword. Left out, a name is left to Pyserini's guess; a folder is `auto`,
            because that guess would look for keywords anywhere in the path ("ance" in /home/lance).
        pooling: `cls` or `mean` for the class `auto`; left out, what a sentence-transformers folder declares, or `cls`.
        l2_norm: whether vectors get unit norm, for the class `auto`; left out, what the folder declares, or not.
        query_prefix: put before every query, with a space.
        max_length: in tokens, for the classes that take it in Pyserini (`openai-api`, `qwen3`); the others cut a
            query at their own limit.
        device: `cpu`, `cuda:0`, ...
        tokenizer: where it is not beside the model.

    Example:
        load_query_encoder("default").encode("who got the first nobel prize in physics")  # float32 [384]
    """
    ensure_java()
    from pyserini.encode import query_encoder_class_map
    from pyserini.search.faiss.__main__ import init_query_encoder
    from pyserini.util import resolve_device

    from tour_pyserini.encoders.grouped_encoder import GroupedQueryEncoder

    encoder_class = _known(encoder_class, QUERY_NAMES, query_encoder_class_map)
    choice = choose_encoder(spec, encoder_class, pooling, l2_norm)
    try:
        _hush()
        if choice.is_folder:
            encoder = GroupedQueryEncoder(
                encoder_dir=choice.name,
                tokenizer_name=tokenizer,
                device=resolve_device(device, backend="torch"),
                pooling=choice.pooling,
                l2_norm=choice.l2_norm,
                prefix=query_prefix,
            )
        else:
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
                prefix=query_prefix,
            )
    except Exception as error:  # whatever the model's files provoke
        raise _unloadable(choice.name, error) from error
    return _ready(encoder, query_prefix)


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

    The maximum length belongs to its `encode(texts=[...], max_length=256)`, which gives float32 [n, d].
    """
    ensure_java()
    from pyserini.encode import AutoDocumentEncoder, document_encoder_class_map
    from pyserini.encode.__main__ import init_encoder
    from pyserini.util import resolve_device

    encoder_class = _known(encoder_class, DOCUMENT_NAMES, document_encoder_class_map)
    choice = choose_encoder(spec, encoder_class, pooling, l2_norm)
    if tokenizer and not choice.is_folder:
        raise TourError("Pyserini's document encoders take their tokenizer from the model; leave out the tokenizer.")
    try:
        _hush()
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
        raise _unloadable(choice.name, error) from error
    return _ready(encoder, prefix)


def encoder_fingerprint(spec: str | os.PathLike[str]) -> str:
    """What tells one encoder from another: a digest of a folder's files, or the name on the model hub."""
    folder = verify_default_encoder() if spec == DEFAULT else Path(spec)
    return fingerprint(folder) if folder.is_dir() else str(spec)


def _known(encoder_class: str | None, names: dict[str, str], classes: dict[str, Any]) -> str | None:
    if encoder_class is None:
        return None
    encoder_class = names.get(encoder_class, encoder_class)
    if encoder_class not in classes:
        raise TourError(f"there is no encoder class {encoder_class!r}; choose one of {', '.join(sorted(classes))}.")
    return encoder_class


def _hush() -> None:
    """No bar for the loading of weights, which takes less time than reading the bar."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def _unloadable(name: str, error: Exception) -> TourError:
    reason = first_line(error).rstrip(".:")
    return TourError(f"cannot load the encoder {name}: {reason}.")


def _ready(encoder: Any, prefix: str | None) -> Any:
    """The encoder without gradients, which Pyserini leaves on and nobody reads."""
    if hasattr(getattr(encoder, "model", None), "requires_grad_"):
        encoder.model.requires_grad_(False)
    if prefix and getattr(encoder, "prefix", None) != prefix:
        log.warning("%s does not use the prefix %r; the class auto would", type(encoder).__name__, prefix)
    return encoder
