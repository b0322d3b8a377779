"""A search with what happened on the way: where each hit was before, its label, and what each round did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.evaluation.tables import html_table
from tour_pyserini.searchers.hits import hits_html
from tour_pyserini.searchers.searcher import SearchRound, TourSearcher


class PathHit(NamedTuple):
    """One line of the final list.

    Attributes:
        docid: the document.
        score: its score in the list.
        text: its passage; None where the searcher was given no texts.
        label: the re-ranker's score of it; None where it has none.
        ranks: its rank in the first retrieval and after each round; None where it was not in the list.
        relevance: the probability that it is relevant; None without a calibration, which `tune` makes.
    """

    docid: str
    score: float
    text: str | None
    label: float | None
    ranks: Sequence[int | None]
    relevance: float | None = None

    @property
    def rank(self) -> int:
        """Its rank in the list, from 1."""
        assert self.ranks[-1] is not None
        return self.ranks[-1]

    @property
    def rank_before(self) -> int | None:
        """Its rank in the first retrieval, before any label; None where it was not in that list."""
        return self.ranks[0]


class ListSummary(NamedTuple):
    """The list after the first retrieval or after a round, in numbers.

    Attributes:
        updates: updates of the query vector so far.
        labels: labels bought so far.
        new: hits that the list before did not have; None for the first list.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop: why the search ended with this list; None when it went on.
    """

    updates: int
    labels: int
    new: int | None
    cosine: float | None
    stop: str | None


@dataclass(frozen=True)
class SearchPath:
    """A query's final list and the path to it; a notebook shows both as tables.

    Attributes:
        query: the query's text.
        hits: the final list, best first: what `search` returns.
        lists: the list after the first retrieval and after each round, in numbers.
    """

    query: str
    hits: Sequence[PathHit]
    lists: Sequence[ListSummary]

    def metadata(self, hit: PathHit) -> dict[str, Any]:
        """What is known of a hit beside its text, in values that JSON has; `path` is the same for all hits."""
        return {
            **{"docid": hit.docid, "score": hit.score, "label": hit.label},
            **({} if hit.relevance is None else {"relevance": hit.relevance}),
            **{"rank": hit.rank, "rank_before": hit.rank_before, "ranks": list(hit.ranks)},
            "path": [summary._asdict() for summary in self.lists],
        }

    def _repr_html_(self) -> str:
        hits = [
            (hit.docid, hit.text or "", f"{hit.score:.4f}", _number(hit.label), _number(hit.rank_before, 0))
            for hit in self.hits
        ]
        head = ["updates", "labels", "new hits", "cosine to the first vector", "stopped by"]
        lists = [
            [str(one.updates), str(one.labels), _number(one.new, 0), _number(one.cosine), one.stop or ""]
            for one in self.lists
        ]
        path = html_table([head, *lists], words=0, title=f"The path of: {self.query}")
        return path + hits_html(["rank", "docid", "passage", "score", "label", "rank before"], hits)


def search_path(searcher: TourSearcher, query: str, k: int = 10, threads: int = 1, *, filter: Any = None) -> SearchPath:
    """Search with one query and keep its path; the list is that of `search`.

    Args:
        searcher: a `TourSearcher`.
        query: the query's text.
        k: length of the list.
        threads: threads of search.
        filter: which documents may be found, see `TourSearcher.search`.

    Example:
        path = search_path(searcher, "do statins prevent stroke")
        print([(hit.docid, hit.rank_before, hit.label) for hit in path.hits], len(path.lists))
    """
    rounds = list(searcher.rounds(query, k, threads, filter=filter))
    ranks = [{hit.docid: rank for rank, hit in enumerate(one.hits, start=1)} for one in rounds]
    last = rounds[-1]
    hits = [
        PathHit(
            *(hit.docid, hit.score, hit.text, last.labels.get(id_), [known.get(hit.docid) for known in ranks]),
            relevance=hit.relevance,
        )
        for hit, id_ in zip(last.hits, last.ids.tolist(), strict=True)
    ]
    return SearchPath(query, hits, _summaries(rounds, ranks))


def _summaries(rounds: Sequence[SearchRound], ranks: Sequence[Mapping[str, int]]) -> list[ListSummary]:
    first = rounds[0].vector
    return [
        ListSummary(
            one.updates,
            len(one.labels),
            len(ranks[i].keys() - ranks[i - 1].keys()) if i else None,
            _cosine(one.vector, first),
            None if one.stop is None else str(one.stop),
        )
        for i, one in enumerate(rounds)
    ]


def _cosine(one: Floats, other: Floats) -> float | None:
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return round(float(one @ other) / norms, 6) if norms else None


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
