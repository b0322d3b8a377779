"""Lists that somebody else retrieved: the method of a query runs over its list alone. Nothing here needs Java."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import Fusion, SignalScores
from tour_pyserini.core.method import Query
from tour_pyserini.core.scheduler import Scheduler, Task
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.reranker import Pair, score_pairs
from tour_pyserini.stores.store import Store, UnsearchedDocuments, as_store


class RankedDocument(NamedTuple):
    """A document of a list in its new order.

    Attributes:
        document: as it was given.
        position: its place in the given list, from 0.
        score: its final score.
        label: the re-ranker's score of it; None where it has none.
    """

    document: Any
    position: int
    score: float
    label: float | None


class DocumentList(NamedTuple):
    """A query and what somebody found for it; see `TourReranker.rank`."""

    query: str
    documents: Sequence[Any]
    vectors: Any = None
    scores: Sequence[float] | None = None
    query_vector: Any = None

    def task(self, config: TourConfig) -> "ListTask":
        """What ranks it, not begun yet.

        Raises:
            TourError: if what is given does not belong together.
        """
        query, documents, vectors, scores, query_vector = self
        count = len(documents)
        if not isinstance(query, str) or not query.strip():
            raise TourError("the query of a list is empty, or not a string; give its text.")
        if isinstance(documents, str):
            raise TourError("the documents are one text; give a list of them.")
        if (vectors is None) != (query_vector is None):
            raise TourError("vectors of documents and of the query belong together: give vectors= and query_vector=.")
        for what, values in (("vectors", vectors), ("scores", scores)):
            if values is not None and len(values) != count:
                raise TourError(f"there are {count} documents and {len(values)} {what}; give one for each document.")
        if not count:
            vectors = query_vector = None
        passages = [_passage(document, place) for place, document in enumerate(documents)]
        signals = []
        if scores is not None or vectors is None:
            said = np.arange(count, 0, -1.0) if scores is None else np.asarray(scores, dtype=np.float64)
            if not np.isfinite(said).all():
                place = int(np.isfinite(said).argmin())
                raise TourError(f"the score of the document at position {place} is not a number.")
            order = np.argsort(-said, kind="stable")
            signals = [SignalScores(order, said[order])]
        index = UnsearchedDocuments(count) if vectors is None else as_store(vectors)
        vector = np.asarray([] if query_vector is None else query_vector, dtype=np.float32).reshape(-1)
        if len(vector) != index.dimension:
            raise TourError(
                f"the query's vector has {len(vector)} dimensions and the documents' have {index.dimension}."
            )
        return ListTask.of(query, vector, index, signals, passages, config)


class TourReranker:
    """Ranks lists that somebody else retrieved, with labels for their promising part alone.

    The first-stage scores are a signal like any other. With vectors, labels also move the query, as in a search.

    Example:
        reranker = TourReranker("default", TourConfig(budget=20))
        for ranked in reranker.rank("do statins prevent stroke", texts, scores=bm25_scores):
            print(ranked.position, ranked.score, ranked.document)
    """

    def __init__(self, reranker: Any = "default", config: TourConfig | None = None) -> None:
        """Take labels from a re-ranker, anything `load_reranker` takes, as the method and its settings say."""
        self.config = config or TourConfig()
        self._reranker = load_reranker(reranker) if self.config.most_labels else None

    def rank(
        self,
        query: str,
        documents: Sequence[Any],
        vectors: Any = None,
        scores: Sequence[float] | None = None,
        *,
        query_vector: Any = None,
    ) -> list[RankedDocument]:
        """All documents of a list, best first.

        Args:
            query: the query's text.
            documents: [n] texts; mappings with `text` (and `title`); or objects with a text of the frameworks' names.
            vectors: [n, d] their vectors; then `query_vector` is needed too.
            scores: [n] what the first stage says of them, in any unit. Without scores and vectors, their order counts.
            query_vector: [d] the query's vector.
        """
        return self.rank_lists([DocumentList(query, documents, vectors, scores, query_vector)])[0]

    def rank_lists(self, lists: Sequence[DocumentList]) -> list[list[RankedDocument]]:
        """The documents of each list, best first; the labels of all lists are computed together."""
        works = [one.task(self.config) for one in lists]
        _run(works, self._reranker)
        return [work.ranked(one.documents) for one, work in zip(lists, works, strict=True)]


class Feedback:
    """One update of a query from the candidates of a list.

    Attributes:
        config: the method and its settings; there is one update, from all candidates.
        labels: whether it reads the query's text and passages.
    """

    def __init__(self, reranker: Any = "default", config: TourConfig | None = None) -> None:
        """Take labels from a re-ranker, anything `load_reranker` takes, as the method and its settings say."""
        self.config = config or TourConfig()
        self.labels = self.config.most_labels > 0
        self._reranker = load_reranker(reranker) if self.labels else None

    def update(
        self, vector: Floats, vectors: Floats, *, passages: Sequence[str] = (), query: str | None = None
    ) -> Floats:
        """The updated vector [d] of a query; the same where it may stop already.

        Args:
            vector: [d] the query's vector.
            vectors: [k, d] those of the candidates.
            passages: [k] their passages, where the rule labels.
            query: the query's text, where the rule labels.
        """
        vector = np.asarray(vector, dtype=np.float32).reshape(-1)
        if not len(vectors):
            return vector
        rounds = {"depth": len(vectors), "iterations": 1, "budget": len(vectors)}  # in so far as the method has them
        known = self.config.values()
        config = self.config.replace(**{name: value for name, value in rounds.items() if name in known})
        work = ListTask.of(query or "", vector, as_store(vectors), [], passages, config)
        _run([work], self._reranker)
        return work.task.result.vector


class ListTask(NamedTuple):
    """A query at work on its own list.

    Attributes:
        task: the query.
        scheduler: what answers it, but for labels.
        passages: the list.
    """

    task: Task
    scheduler: Scheduler
    passages: Sequence[str]

    @classmethod
    def of(
        cls,
        query: str,
        vector: Floats,
        index: Store,
        signals: Sequence[SignalScores],
        passages: Sequence[str],
        config: TourConfig,
    ) -> "ListTask":
        """A query that searches an index of its list, by a vector [d] and by what signals say of the list."""

        def search(vectors: Floats, k: int, _: Sequence[Query]) -> Hits:
            return index.search(vectors, k)

        fusion = Fusion(signals, weight=config.settings.signal_weight)
        task = Task(config.chosen, config.settings, Query(vector, index.size, fusion, text=query))
        return cls(task, Scheduler(search, index.fetch), passages)

    @property
    def pairs(self) -> list[Pair]:
        """What the re-ranker has to read for the labels that it waits for."""
        return [(self.task.query.text, self.passages[id_]) for id_ in self.task.wanted_labels.tolist()]

    def go_on(self, labels: Floats | None = None) -> None:
        """Advance until it has ended or waits for labels; the labels [m] that it waited for come first."""
        if labels is not None:
            self.task.answer(labels)
        self.scheduler.advance([self.task])

    def ranked(self, documents: Sequence[Any]) -> list[RankedDocument]:
        """The documents of the list, best first, when the task has ended."""
        ids, scores = self.task.result.ranking
        labels = self.task.labels
        return [
            RankedDocument(documents[id_], id_, score, labels.get(id_))
            for id_, score in zip(ids.tolist(), scores.tolist(), strict=True)
        ]


def _run(works: Sequence[ListTask], reranker: Any) -> None:
    """Advance the tasks of lists to their ends; each time, the labels that all of them wait for are one call."""
    for work in works:
        work.go_on()
    while waiting := [work for work in works if work.task.waits_for_labels]:
        wanted = [work.pairs for work in waiting]
        labels = score_pairs(reranker, [pair for pairs in wanted for pair in pairs])
        for work, own in zip(waiting, np.split(labels, np.cumsum(list(map(len, wanted)))[:-1]), strict=True):
            work.go_on(own)


_TEXTS = ("text", "content", "contents", "page_content")


def _passage(document: Any, place: int) -> str:
    """What the re-ranker reads of a document."""
    if isinstance(document, str):
        return document
    fields: Mapping[str, Any] = (
        document if isinstance(document, Mapping) else {name: getattr(document, name, None) for name in _TEXTS}
    )
    text = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), None)
    if text is None:
        raise TourError(f"the document at position {place} is a {type(document).__name__} without a text; give `text`.")
    return Passage(fields["title"], text) if fields.get("title") else text
