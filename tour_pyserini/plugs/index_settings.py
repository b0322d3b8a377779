"""How an index was encoded, so that queries are encoded alike."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.plugs.encoders import encoder_fingerprint

log = logging.getLogger(__name__)

FILE = "tour-index.json"


class IndexSettings(NamedTuple):
    """What `python -m tour_pyserini.index` was told about the encoder."""

    encoder: str
    fingerprint: str
    encoder_class: str
    pooling: str | None
    l2_norm: bool | None
    prefix: str | None
    max_length: int
    fields: Sequence[str]


def read_index_settings(index: str | os.PathLike[str]) -> IndexSettings | None:
    """The settings beside an index of ours; None for other indexes and prebuilt ones."""
    path = Path(index) / FILE
    if not path.is_file():
        return None
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
        return IndexSettings(
            **{name: settings[name] for name in IndexSettings._fields if name != "fingerprint"},
            fingerprint=settings["encoder_fingerprint"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe an index ({error}); build the index again.") from error


def encoder_options(
    index: str | os.PathLike[str], encoder: str | None, *, pooling: str | None, l2_norm: bool | None
) -> dict[str, Any]:
    """The encoder's `spec`, `pooling` and `l2_norm` for searching an index: what was said, else what built the index.

    Forgetting the pooling that built an index gives vectors of the right size and the wrong meaning.
    """
    made = read_index_settings(index)
    if made is None:
        return {"spec": encoder or "default", "pooling": pooling, "l2_norm": l2_norm}
    spec = encoder or made.encoder
    if encoder_fingerprint(spec) != made.fingerprint:
        log.warning("%s was built with %s and is searched with %s: do they belong together?", index, made.encoder, spec)
    elif made.encoder_class.startswith("Auto"):
        pooling = made.pooling if pooling is None else pooling
        l2_norm = made.l2_norm if l2_norm is None else l2_norm
    return {"spec": spec, "pooling": pooling, "l2_norm": l2_norm}


def check_vectors(index: str | os.PathLike[str], vectors: str) -> None:
    """Refuse the vectors of another encoder for an index, where both say which encoder they come from."""
    if not vectors:
        raise TourError("--vectors is empty; name the folder of the encoded corpus, or `encode`.")
    searched, stored = read_index_settings(index), read_index_settings(vectors)
    if searched and stored and searched.fingerprint != stored.fingerprint:
        raise TourError(
            f"the vectors in {vectors} come from {stored.encoder} and the index {index} from {searched.encoder}; "
            "both must come from one encoder."
        )
