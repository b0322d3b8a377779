"""The encoder settings in the record of an index: queries and exact vectors must come from the same encoder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.lines import read_json_object
from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError, first_line


class IndexSettings(NamedTuple):
    """The encoder of an index, and the options of `python -m tour_pyserini.index` that change its vectors."""

    encoder: str
    fingerprint: str
    encoder_class: str
    pooling: str | None
    l2_norm: bool | None
    prefix: str | None
    max_length: int
    fields: Sequence[str]


def read_index_settings(index: str | os.PathLike[str]) -> IndexSettings | None:
    """The settings in the record of an index folder; None for prebuilt indexes and indexes of other programs."""
    path = Path(index) / PASSAGE_INDEX
    if not path.is_file():
        return None
    try:
        settings = read_json_object(path)["settings"]
        return _checked(
            IndexSettings(
                **{name: settings[name] for name in IndexSettings._fields if name != "fingerprint"},
                fingerprint=settings["encoder_fingerprint"],
            )
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe an index ({first_line(error)}); build the index again.") from error


def _checked(settings: IndexSettings) -> IndexSettings:
    """The settings, if each of them has its type."""
    texts = (settings.encoder, settings.fingerprint, settings.encoder_class)
    optional = (settings.pooling, settings.prefix)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(text, str | None) for text in optional):
        raise ValueError("a name in it is not text")
    length = settings.max_length
    if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length < 2**31:
        raise ValueError("its max_length is not a whole number above 0")
    if not isinstance(settings.l2_norm, bool | None):
        raise ValueError("its l2_norm is neither true nor false")
    if not isinstance(settings.fields, list) or not all(isinstance(name, str) for name in settings.fields):
        raise ValueError("its fields are not a list of names")
    return settings


def check_vectors(index: str | os.PathLike[str], vectors: str) -> None:
    """Check that the vectors for an index come from the encoder of the index, if both have a record.

    Raises:
        TourError: if they come from different encoders, or `vectors` is empty.
    """
    if not vectors:
        raise TourError("--vectors is empty; give the folder of the encoded corpus, or `encode`.")
    searched, stored = read_index_settings(index), read_index_settings(vectors)
    if searched and stored and searched.fingerprint != stored.fingerprint:
        raise TourError(
            f"the vectors in {vectors} come from {stored.encoder} and the index {index} from {searched.encoder}; "
            "both must come from the same encoder."
        )
