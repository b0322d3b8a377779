"""The encoder settings in the record of an index: queries and exact vectors must come from the same encoder."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError


class IndexSettings(NamedTuple):
    """The encoder of an index, and the options of `python -m tour_pyserini.index` that change its vectors.

    Attributes:
        encoder: a folder, or a name.
        fingerprint: of the encoder.
        encoder_class: Pyserini's name of the class; None if the encoder was run as its own files say, or if the record
            of an older version does not tell.
        pooling: how the vectors of tokens were pooled.
        l2_norm: whether vectors have norm 1.
        prefix: what was put before each document instead of the model's own prompt.
        max_length: tokens of a document that were read.
        fields: what was encoded of a document.
        truncate_dim: dimensions that were kept of each vector, if they were cut.
        precision: `fp32` or `int8`.
        asked: `pooling`, `l2_norm` and `truncate_dim`, as far as they were asked for.
    """

    encoder: str
    fingerprint: str
    encoder_class: str | None
    pooling: Any
    l2_norm: bool | None
    prefix: str | None
    max_length: int | None
    fields: Sequence[str]
    truncate_dim: int | None = None
    precision: str | None = None
    asked: Mapping[str, Any] = {}


def read_index_settings(index: str | os.PathLike[str]) -> IndexSettings | None:
    """The settings in the record of an index folder; None for prebuilt indexes and indexes of other programs."""
    path = Path(index) / PASSAGE_INDEX
    if not path.is_file():
        return None
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
        required = [
            name for name in IndexSettings._fields if name not in ("fingerprint", *IndexSettings._field_defaults)
        ]
        made = IndexSettings(
            **{name: settings[name] for name in required},
            **{name: settings[name] for name in IndexSettings._field_defaults if name in settings},
            fingerprint=settings["encoder_fingerprint"],
        )
        return made if "asked" in settings else _of_older_version(made)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe an index ({error}); build the index again.") from error


def _of_older_version(made: IndexSettings) -> IndexSettings:
    """Records of version 0.1 have the name of Pyserini's Python class, and the pooling of the class auto."""
    auto = str(made.encoder_class).startswith("Auto")
    asked = {"pooling": made.pooling, "l2_norm": made.l2_norm} if auto else {}
    return made._replace(encoder_class=None, asked=asked)


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
