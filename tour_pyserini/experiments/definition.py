"""What an experiment is: collections, encoders, indexes, re-rankers and conditions, and how they are shown."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tour_pyserini.experiments.flags import Flags

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
