"""How an index was encoded, so that queries are encoded alike."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError


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
    path = Path(index) / PASSAGE_INDEX
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
