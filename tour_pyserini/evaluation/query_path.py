"""One query's path through its rounds, read from a trace, and as text."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from json import loads
from typing import Any, NamedTuple, Self

from tour_pyserini.data.input_files import read_lines
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.runs import best_first, read_run
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError

_Path = str | os.PathLike[str]


class PathRound(NamedTuple):
    """One round on a query's path.

    Attributes:
        docids: the first hits of this round's retrieval, in order.
        labels: the re-ranker's score of each of them, from this round or an earlier one; None where it has none.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop: why the query stopped after this round; None if it did not.
        query: the query vector, if the trace has it.
        similarities: similarity of each hit to the query vector; None where it is not known.
    """

    docids: list[str]
    labels: list[float | None]
    cosine: float | None
    stop: str | None
    query: list[float] | None = None
    similarities: Sequence[float | None] = ()


@dataclass(frozen=True)
class QueryPath:
    """A query and its way through a search.

    Attributes:
        qid: its id.
        query: its text.
        rounds: its retrievals.
        texts: docid to passage.
        relevant: docids judged relevant.
        final: docids and scores of the list that the search returned, best first.
    """

    qid: str
    query: str
    rounds: Sequence[PathRound]
    texts: Mapping[str, str]
    relevant: Set[str] = frozenset()
    final: Sequence[tuple[str, float]] = ()

    @classmethod
    def read(
        cls,
        trace: _Path,
        topics: _Path,
        corpus: _Path,
        *,
        qrels: _Path | None = None,
        run: _Path | None = None,
        topic: str | None = None,
    ) -> Self:
        """The path of a topic of a trace; if none is named, that of the query whose relevant passage climbed most.

        Raises:
            TourError: if one of the files does not have it.
        """
        relevant: dict[str, set[str]] = {}
        for judgement in read_qrels(qrels) if qrels else ():
            if judgement.relevance > 0:
                relevant.setdefault(judgement.query_id, set()).add(judgement.doc_id)
        paths = _read_rounds(trace)
        if not paths:
            raise TourError(f"{trace} is empty; make it with python -m tour_pyserini.search --trace.")
        qid = topic or _most_improved_query(paths, relevant)
        if qid not in paths:
            raise TourError(f"{trace} has no query {qid!r}; choose another --topic.")
        queries = {str(id_): text for id_, text in read_topics(topics, only={qid})}
        if qid not in queries:
            raise TourError(f"{topics} has no query {qid!r}, which the trace has; give the topics that were searched.")
        hits = best_first(hit for hit in read_run(run) if hit.query_id == qid) if run else []
        if run and not hits:
            raise TourError(f"{run} has no hits of the query {qid!r}; give the run of the same search as the trace.")
        final = [(hit.doc_id, hit.score) for hit in hits]
        return cls(qid, queries[qid], paths[qid], open_texts(corpus), relevant.get(qid, set()), final)

    @cached_property
    def labels(self) -> dict[str, float]:
        """The labels of all rounds, by docid."""
        found = (pair for one in self.rounds for pair in zip(one.docids, one.labels, strict=False))
        return {docid: label for docid, label in found if label is not None}

    def as_text(self, *, shown: int = 5) -> str:
        """The first candidates of each list, with labels or final scores; `*` is judged relevant, `+` is new."""
        lines, seen = [f"query: {self.query}"], set(self.rounds[0].docids)

        def add(hits: Iterable[tuple[str, float | None]]) -> None:
            for rank, (docid, value) in enumerate(itertools.islice(hits, shown), start=1):
                marks = ("*" if docid in self.relevant else " ") + ("+" if docid not in seen else " ")
                number = "-" if value is None else f"{value:.2f}"
                lines.append(f"  {rank:2d}. {marks} {docid:8s} {number:>7s}  {first_words(self.texts[docid], 83)}")

        for t, one in enumerate(self.rounds):
            end = f", stopped: {one.stop}" if one.stop else ""
            cosine = "-" if one.cosine is None else f"{one.cosine:.3f}"
            lines.append(f"t = {t} (cosine to the first vector {cosine}{end})")
            add(zip(one.docids, one.labels, strict=False))
            seen.update(one.docids)
        if self.final:
            lines.append("final list (similarities and the re-ranker's scores combined)")
            add(self.final)
        return "\n".join(lines)


def first_words(text: str, length: int) -> str:
    """The first words of a passage, in at most `length` characters; "..." stands for the others.

    Example:
        >>> first_words("Rack and rope lines of the Hollin range", 20)
        'Rack and rope ...'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3].rsplit(" ", 1)[0] + " ..."


def _read_rounds(trace: _Path) -> dict[str, list[PathRound]]:
    """The rounds of every query in a trace, by query id."""
    paths: dict[str, list[PathRound]] = {}
    for line in read_lines(trace):
        try:
            record: dict[str, Any] = loads(line.text)
            shared = {name: record[name] for name in ("docids", "labels", "cosine", "stop", "similarities")}
            paths.setdefault(record["qid"], []).append(PathRound(**shared, query=record.get("query")))
        except (ValueError, KeyError, TypeError, RecursionError):
            line.refuse("is not a line of a trace; make it with --trace")
    return paths


def _most_improved_query(paths: Mapping[str, Sequence[PathRound]], relevant: Mapping[str, Set[str]]) -> str:
    """The query whose best relevant passage climbed the most ranks; queries where it ended at rank 1 come first.

    Of equal ones, the one with the most rounds is taken.
    """

    def climb(qid: str) -> tuple[int, int, int]:
        rounds = paths[qid]
        first, last = (_best_rank(one, relevant.get(qid, frozenset())) for one in (rounds[0], rounds[-1]))
        return (last == 1, first - last, len(rounds))

    return max(sorted(paths), key=climb)


def _best_rank(one: PathRound, relevant: Set[str]) -> int:
    """The rank of the first relevant candidate; one more than the last rank if there is none."""
    docids = one.docids
    return min((docids.index(docid) + 1 for docid in relevant if docid in docids), default=len(docids) + 1)
