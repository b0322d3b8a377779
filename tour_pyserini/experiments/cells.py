"""The cells of an experiment: a collection, an encoder, an index and a re-ranker; and what is run in each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Condition, Experiment

PARTS = ("collections", "encoders", "indexes", "rerankers")


class Cell(NamedTuple):
    """Names of its four parts (`kind` is the index's); `name` is what files and expected scores call it."""

    collection: str
    encoder: str
    kind: str
    reranker: str
    name: str


def cells(experiment: Experiment, chosen: Mapping[str, Sequence[str]] | None = None) -> Iterator[Cell]:
    """The cells in the file's order, only those whose parts are chosen.

    Args:
        experiment: the experiment.
        chosen: by `collections`, `encoders`, `indexes` or `rerankers`, names; nothing chosen is everything.

    The re-ranker is part of the name only where there are several.
    """
    chosen = chosen or {}
    kept = {part: _chosen(list(getattr(experiment, part)), chosen.get(part) or (), part) for part in PARTS}
    for collection in kept["collections"]:
        for encoder in kept["encoders"]:
            for index in kept["indexes"]:
                for reranker in kept["rerankers"]:
                    if collection not in (experiment.rerankers[reranker].collections or kept["collections"]):
                        continue
                    parts = [collection, encoder, index] + [reranker] * (len(experiment.rerankers) > 1)
                    yield Cell(collection, encoder, index, reranker, ".".join(parts))


def conditions_of(experiment: Experiment, cell: Cell, chosen: Sequence[str] = ()) -> dict[str, Condition]:
    """The conditions of a cell by name, only those chosen by their own name or their sweep's."""
    names = [*experiment.conditions, *experiment.sweeps]
    _chosen(names, chosen, "conditions")
    return {
        name: condition
        for name, condition in experiment.conditions.items()
        if _applies(condition, cell) and (not chosen or name in chosen or condition.sweep in chosen)
    }


def _applies(condition: Condition, cell: Cell) -> bool:
    own = dict(zip(PARTS, cell[:4], strict=True))
    return all(own[part] in names for part, names in condition.only.items())


def _chosen(names: list[str], chosen: Sequence[str], part: str) -> list[str]:
    for name in chosen:
        if name not in names:
            raise TourError(f"there is no {name!r} among the {part}; choose from {', '.join(names)}.")
    return [name for name in names if name in chosen] if chosen else names
