"""An experiment as values: collections, encoders, indexes, re-rankers and conditions, and the cells they form."""

from collections.abc import Iterator, Mapping, Sequence
from string import Template
from typing import NamedTuple

from tour_pyserini.errors import TourError

Value = str | int | float | bool
Flags = Mapping[str, Value]


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with its ${VARIABLES} replaced.

    Raises:
        TourError: if there is no such variable.
    """
    try:
        return Template(text).substitute(variables)
    except KeyError as missing:
        name = str(missing).strip("'")
        hint = "give --data DIR" if name == "DATA" else f"set it in the environment: {name}=..."
        raise TourError(f"{text!r} needs the variable {name}; {hint}.") from None
    except ValueError:
        raise TourError(f"{text!r} has a $ that begins no ${{VARIABLE}}; write $$ for the sign itself.") from None


Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By cell and condition, the value of each measure."""


class Collection(NamedTuple):
    """Passages, topics and judgements; paths may hold ${VARIABLES}.

    Attributes:
        qrels: None where passages are judged by the answers they contain.
        splits: a file that puts the topics into splits, if there is one.
        stem: the first part of its indexes' names; collections of one corpus share it.
        limit: search this many of the judged topics, evenly spaced; None for all.
        search_flags: further flags of the search command.
    """

    corpus: str
    topics: str
    qrels: str | None
    splits: str | None
    stem: str
    limit: int | None
    search_flags: Flags


class Encoder(NamedTuple):
    """Flags of the index command and of the search command that choose an encoder."""

    title: str
    index_flags: Flags
    search_flags: Flags


class Index(NamedTuple):
    """A kind of index.

    Attributes:
        flags: of the index command.
        vectors: the kind of index, of the same encoder, that exact vectors are read from.
        prebuilt: the name of a Pyserini index that is not built here.
    """

    title: str
    flags: Flags
    vectors: str | None
    prebuilt: str | None


class Reranker(NamedTuple):
    """Flags of the search command that choose a re-ranker, and the collections it is for: all, if none is named."""

    title: str
    flags: Flags
    collections: Sequence[str]


class Condition(NamedTuple):
    """One way to search.

    Attributes:
        flags: of the search command.
        sweep: the sweep it is a point of, if any, and `value` the flag's value there.
        only: by `collections`, `encoders`, `indexes` or `rerankers`, the names it is restricted to.
    """

    title: str
    flags: Flags
    sweep: str | None
    value: float | None
    only: Mapping[str, Sequence[str]]


class Sweep(NamedTuple):
    """Conditions that differ in the value of one flag."""

    title: str
    flag: str


class TableOf(NamedTuple):
    """Conditions shown together, and those that the others are tested against.

    Attributes:
        rerankers: shown together, for each of the conditions; the others are tested against the first.
    """

    title: str
    conditions: Sequence[str]
    baselines: Sequence[str]
    rerankers: Sequence[str] = ()


class FigureOf(NamedTuple):
    """Curves shown together; see `tour_pyserini.experiments.figures` for the kinds."""

    kind: str
    title: str
    measure: str
    curves: Sequence[str]
    lines: Sequence[str]


class Experiment(NamedTuple):
    """Everything one file says; runs hold `hits` hits per topic."""

    name: str
    title: str
    measures: Sequence[str]
    hits: int
    collections: Mapping[str, Collection]
    encoders: Mapping[str, Encoder]
    indexes: Mapping[str, Index]
    rerankers: Mapping[str, Reranker]
    conditions: Mapping[str, Condition]
    sweeps: Mapping[str, Sweep]
    tables: Mapping[str, TableOf]
    figures: Mapping[str, FigureOf]
    expected: Scores
    paper: Scores


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
