"""A search with what happened on the way: where each hit was before, its label, and what each round did."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tour_pyserini.core.arrays import cosine
from tour_pyserini.evaluation.tables import Table, number
from tour_pyserini.searchers.hits import hits_html
from tour_pyserini.searchers.searcher import TourSearcher


class PathHit(NamedTuple):
    """One line of the final list.

    Attributes:
        docid: the document.
        score: its score in the list.
        text: its passage; None where the searcher was given no texts.
        label: the re-ranker's score of it; None where it has none.
        relevance: the probability that it is relevant; None without a calibration, which `tune` makes.
        rank: its rank in the list, from 1.
        rank_before: its rank in the first retrieval, before any label; None where it was not in that list.
        ranks: its rank in the first retrieval and after each round; None where it was not in the list.
    """

    docid: str
    score: float
    text: str | None
    label: float | None
    relevance: float | None
    rank: int
    rank_before: int | None
    ranks: Sequence[int | None]


class _ListSummary(NamedTuple):
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
    lists: Sequence[_ListSummary]

    def metadata(self, hit: PathHit) -> dict[str, Any]:
        """What is known of a hit beside its text, in values that JSON has; `path` is the same for all hits."""
        absent = ("text",) if hit.relevance is not None else ("text", "relevance")
        known = {name: value for name, value in hit._asdict().items() if name not in absent}
        return {**known, "path": [summary._asdict() for summary in self.lists]}

    def _repr_html_(self) -> str:
        hits = [
            (hit.docid, hit.text or "", f"{hit.score:.4f}", number(hit.label), number(hit.rank_before, 0))
            for hit in self.hits
        ]
        head = ["updates", "labels", "new hits", "cosine to the first vector", "stopped by"]
        lists = [
            [str(one.updates), str(one.labels), number(one.new, 0), number(one.cosine), one.stop or ""]
            for one in self.lists
        ]
        path = Table([head, *lists], words=0, title=f"The path of: {self.query}")
        return path._repr_html_() + hits_html(["rank", "docid", "passage", "score", "label", "rank before"], hits)


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
    hits = []
    for hit in rounds[-1].hits:
        own, label = [known.get(hit.docid) for known in ranks], rounds[-1].labels.get(hit.position)
        hits.append(PathHit(hit.docid, hit.score, hit.text, label, hit.relevance, ranks[-1][hit.docid], own[0], own))
    lists = []
    for i, one in enumerate(rounds):
        new = len(ranks[i].keys() - ranks[i - 1].keys()) if i else None
        drift, stop = cosine(one.vector, rounds[0].vector), None if one.stop is None else str(one.stop)
        lists.append(_ListSummary(one.updates, len(one.labels), new, drift and round(drift, 6), stop))
    return SearchPath(query, hits, lists)
