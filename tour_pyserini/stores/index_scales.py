"""The scales beside an index: what a unit of similarity is worth in labels, found once for each re-ranker."""

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.lines import read_json_object
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.files import atomic_write, cache_home

FILE = "tour-scales.json"


class IndexScale(NamedTuple):
    """A calibrated scale.

    Attributes:
        scale: the factor that puts similarities on the scale of labels.
        encoder: fingerprint of the query encoder, and the options that change its vectors.
        reranker: fingerprint of the re-ranker.
        queries: how many queries it was found on.
        labels: how many labels it was found on.
        source: where these queries came from.
    """

    scale: float
    encoder: str
    reranker: str
    queries: int
    labels: int
    source: str


def scales_path(index: str | os.PathLike[str]) -> Path:
    """The file of an index's scales: in its folder or, for a prebuilt index or a collection, in the cache folder."""
    folder, address = Path(index), store_address(index)
    name = address.identity if address else folder.name
    return folder / FILE if folder.is_dir() else cache_home() / "scales" / f"{name}.json"


def read_scales(index: str | os.PathLike[str]) -> list[IndexScale]:
    """All scales of an index; none where it was never calibrated."""
    path = scales_path(index)
    if not path.is_file():
        return []
    try:
        entries = read_json_object(path)["scales"]
        return [_checked(IndexScale(**entry)) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(
            f"{path} does not hold the scales of an index ({first_line(error):.200}); delete it and calibrate again."
        ) from error


def find_scale(index: str | os.PathLike[str], *, encoder: str, reranker: str) -> IndexScale | None:
    """The scale of an index for a query encoder and a re-ranker, given by their fingerprints; None if there is none."""
    found = [scale for scale in read_scales(index) if (scale.encoder, scale.reranker) == (encoder, reranker)]
    return found[-1] if found else None


def write_scale(index: str | os.PathLike[str], scale: IndexScale) -> Path:
    """Store a scale beside its index, in place of an earlier one for the same models."""
    path = scales_path(index)
    kept = [old for old in read_scales(index) if (old.encoder, old.reranker) != (scale.encoder, scale.reranker)]
    entries = [each._asdict() for each in (*kept, scale)]
    with atomic_write(path) as file:
        file.write(json.dumps({"scales": entries}, indent=1, ensure_ascii=False) + "\n")
    return path


def given_scale(scale: float | str | os.PathLike[str] | None, *, reranker: str | None) -> float | None:
    """A scale as a searcher is given it.

    Args:
        scale: a number; or an index, for the scale that `calibrate` stored beside it; or None.
        reranker: fingerprint of the re-ranker, which chooses among the scales of an index.

    Raises:
        TourError: if it is not a number above 0, or the index does not have exactly one scale for the re-ranker.
    """
    if isinstance(scale, str | os.PathLike):
        found = [entry for entry in read_scales(scale) if entry.reranker == reranker]
        if len(found) == 1:
            return found[0].scale
        if not found:
            raise TourError(f"{scale} has no scale for this re-ranker; run python -m tour_pyserini.calibrate.")
        values = ", ".join(f"{entry.scale:.4g} ({entry.encoder})" for entry in found)
        raise TourError(f"{scale} has scales for several query encoders; give the number of yours: {values}.")
    if scale is not None and not _is_scale(scale):
        raise TourError(f"scale must be a number above 0, or an index that has been calibrated, not {scale!r}.")
    return scale


def _checked(scale: IndexScale) -> IndexScale:
    value = scale.scale
    if not _is_scale(value):
        raise ValueError(f"the scale {value!r} is not a number above 0")
    if not isinstance(scale.encoder, str) or not isinstance(scale.reranker, str):
        raise ValueError("a fingerprint is not text")
    return scale


def _is_scale(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
