"""The scales beside an index: what a unit of similarity is worth in labels, found once for each re-ranker."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.lines import read_json_object
from tour_pyserini.errors import TourError, first_line
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
        made: when it was found.
    """

    scale: float
    encoder: str
    reranker: str
    queries: int
    labels: int
    source: str
    made: str = ""


def scales_path(index: str | os.PathLike[str]) -> Path:
    """The file of an index's scales: in its folder or, for a prebuilt index, in the cache folder."""
    folder = Path(index)
    return folder / FILE if folder.is_dir() else cache_home() / "scales" / f"{folder.name}.json"


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
    entries: list[dict[str, Any]] = [old._asdict() for old in kept]
    entries.append(scale._replace(made=datetime.now(UTC).isoformat(timespec="seconds"))._asdict())
    with atomic_write(path) as file:
        file.write(json.dumps({"scales": entries}, indent=1, ensure_ascii=False) + "\n")
    return path


def _checked(scale: IndexScale) -> IndexScale:
    value = scale.scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"the scale {value!r} is not a number above 0")
    if not isinstance(scale.encoder, str) or not isinstance(scale.reranker, str):
        raise ValueError("a fingerprint is not text")
    return scale
