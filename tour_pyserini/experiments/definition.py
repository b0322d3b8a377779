"""An experiment as values: collections, encoders, indexes, re-rankers, conditions, and the setups they form."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tour_pyserini.errors import TourError

Value = str | int | float | bool
Flags = Mapping[str, Value]


Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""The value of each measure, by the names of setup and condition."""

PARTS = ("collections", "encoders", "indexes", "rerankers")
"""A setup has one of each."""

COLLECTION = "${COLLECTION}"
"""Stands for the name of a collection, in its own texts, in the name of a prebuilt index and in flags."""

FIGURE_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "labels": "quality against labels per query",
        "seconds": "quality against seconds per query",
        "sweep": "quality against the swept flag, for example iterations",
        "efficiency": "labels and seconds per query against the swept flag, with and without reused labels",
    }
)


CLOSE = 0.0005
"""Up to this difference from the expected score, a score is "okish", as in Pyserini's reproductions."""


class Collection(NamedTuple):
    """Passages, topics and judgements; paths may contain ${VARIABLES}.

    Attributes:
        qrels: the judgements; None if passages are judged by the answers they contain.
        splits: a file that puts the topics into splits; None if there is none.
        stem: the first part of the names of its indexes; collections with the same corpus share it.
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
    """An encoder: the flags of the index command and of the search command that choose it."""

    title: str
    index_flags: Flags
    search_flags: Flags


class Index(NamedTuple):
    """A kind of index.

    Attributes:
        flags: flags of the index command.
        vectors: the kind of index, of the same encoder, that exact vectors are read from.
        prebuilt: the name of an index that Pyserini downloads, where ${COLLECTION} stands for the collection; None if
            it is built here.
    """

    title: str
    flags: Flags
    vectors: str | None
    prebuilt: str | None


class Reranker(NamedTuple):
    """A re-ranker: the flags of the search command that choose it, and its collections (all, if none is named)."""

    title: str
    flags: Flags
    collections: Sequence[str]


class Condition(NamedTuple):
    """One way to search.

    Attributes:
        flags: flags of the search command.
        sweep: the name of its sweep; None if it is not part of one.
        value: the value of the swept flag.
        only: the names that it is restricted to, by `collections`, `encoders`, `indexes` or `rerankers`.
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


class TableDefinition(NamedTuple):
    """A table of conditions, and the baselines that the others are tested against.

    Attributes:
        rerankers: if given, there is one table for each condition, with one line for each of these re-rankers; the
            first re-ranker is the baseline.
    """

    title: str
    conditions: Sequence[str]
    baselines: Sequence[str]
    rerankers: Sequence[str] = ()


class FigureDefinition(NamedTuple):
    """A figure of several curves.

    Attributes:
        kind: one of `FIGURE_KINDS`.
        curves: names of sweeps.
        lines: names of conditions that are drawn as one point or one horizontal line.
    """

    kind: str
    title: str
    measure: str
    curves: Sequence[str]
    lines: Sequence[str]


class Experiment(NamedTuple):
    """The content of an experiment file.

    Runs have `hits` hits per topic. A score that differs from the expected one by at most `tolerance` is close enough.
    """

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
    tables: Mapping[str, TableDefinition]
    figures: Mapping[str, FigureDefinition]
    expected: Scores
    paper: Scores
    tolerance: float = CLOSE


def of_collection(flags: Flags, name: str) -> dict[str, Value]:
    """The flags with the name of a collection in place of ${COLLECTION}."""
    return {flag: value.replace(COLLECTION, name) if isinstance(value, str) else value for flag, value in flags.items()}


class Setup(NamedTuple):
    """One collection, encoder, index and re-ranker, by their names.

    Attributes:
        name: the name in file names and in expected scores; it has the re-ranker only if there are several.
    """

    collection: str
    encoder: str
    index_kind: str
    reranker: str
    name: str


def setups(experiment: Experiment, chosen: Mapping[str, Sequence[str]] | None = None) -> Iterator[Setup]:
    """The setups of an experiment in the order of its file.

    Args:
        experiment: the experiment.
        chosen: names by `collections`, `encoders`, `indexes` or `rerankers`; without names, all of that part.
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
                    yield Setup(collection, encoder, index, reranker, ".".join(parts))


def conditions_of(experiment: Experiment, setup: Setup, chosen: Sequence[str] = ()) -> dict[str, Condition]:
    """The conditions of a setup by name; only the chosen ones, which are named by condition or by sweep."""
    names = [*experiment.conditions, *experiment.sweeps]
    _chosen(names, chosen, "conditions")
    return {
        name: condition
        for name, condition in experiment.conditions.items()
        if _applies(condition, setup) and (not chosen or name in chosen or condition.sweep in chosen)
    }


def _applies(condition: Condition, setup: Setup) -> bool:
    own = dict(zip(PARTS, setup[:4], strict=True))
    return all(own[part] in names for part, names in condition.only.items())


def _chosen(names: list[str], chosen: Sequence[str], part: str) -> list[str]:
    for name in chosen:
        if name not in names:
            raise TourError(f"{name!r} is not one of the {part}; choose from {', '.join(names)}.")
    return [name for name in names if name in chosen] if chosen else names
