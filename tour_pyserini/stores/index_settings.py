"""The encoder settings in the record of an index: queries and exact vectors must come from the same encoder."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.engines.collection_store import open_collection
from tour_pyserini.stores.engines.store_address import store_address


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
    """The settings in the record of an index folder or a collection; None for prebuilt and other programs' indexes."""
    path = Path(index) / PASSAGE_INDEX
    address = store_address(index)
    if not address and not path.is_file():
        return None
    try:
        settings = open_collection(address).settings if address else read_json_object(path)["settings"]
        required = [
            name for name in IndexSettings._fields if name not in ("fingerprint", *IndexSettings._field_defaults)
        ]
        made = IndexSettings(
            **{name: settings[name] for name in required},
            **{name: settings[name] for name in IndexSettings._field_defaults if name in settings},
            fingerprint=settings["encoder_fingerprint"],
        )
        return _checked(made if "asked" in settings else _of_older_version(made))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(
            f"{address or path} does not describe an index ({first_line(error)}); build the index again."
        ) from error


def _checked(settings: IndexSettings) -> IndexSettings:
    """The settings, if each of them has its type."""
    texts = (settings.encoder, settings.fingerprint)
    optional = (settings.encoder_class, settings.prefix, settings.precision)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(text, str | None) for text in optional):
        raise ValueError("a name in it is not text")
    for name in ("max_length", "truncate_dim"):
        number = getattr(settings, name)
        if number is not None and (type(number) is not int or not 1 <= number < 2**31):
            raise ValueError(f"its {name} is not a whole number above 0")
    if not isinstance(settings.asked, dict):
        raise ValueError("its `asked` is not an object")
    if not isinstance(settings.l2_norm, bool | None):
        raise ValueError("its l2_norm is neither true nor false")
    if not isinstance(settings.fields, list) or not all(isinstance(name, str) for name in settings.fields):
        raise ValueError("its fields are not a list of names")
    return settings


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
