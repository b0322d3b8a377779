"""TouR over phrases: the same loop, another index. Nothing here needs Pyserini or Java."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.ledger import Vectors
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.searcher import UNITS, PhraseHit, PhraseSearcher
from tour_pyserini.searchers.optimiser import Observer
from tour_pyserini.searchers.passage_labels import PassageLabels
from tour_pyserini.searchers.retrieval import Retrieval
from tour_pyserini.searchers.shared_labels import SharedLabels
from tour_pyserini.searchers.tour_engine import TourEngine

Predict = Callable[[str, Sequence[PhraseHit]], None]


class TourPhraseEngine(TourEngine):
    """Searches a phrase index with queries [start; end] that are optimised at test time.

    `batch_phrases` gives phrases. `search`, `batch_search` and `batch_run` give passages: a passage has the score of
    its best phrase. `TourPhraseSearcher` is the same with Pyserini's classes of hits.

    Example:
        engine = TourPhraseEngine(PhraseSearcher(index, encoder, texts), "models/reranker")
        engine.phrases("who got the first nobel prize in physics")[0].text
    """

    def __init__(
        self,
        searcher: PhraseSearcher,
        reranker: Any = "default",
        config: TourConfig | None = None,
        *,
        unit: str = "phrase",
        shown: PhraseInput | None = None,
        observe: Observer | None = None,
        predict: Predict | None = None,
    ) -> None:
        """Wrap a searcher.

        Args:
            searcher: where candidates come from.
            reranker: where labels come from: anything `load_reranker` takes.
            config: the method and its settings.
            unit: what a candidate is: a `phrase`, or a `passage`, by its best phrase.
            shown: what the re-ranker reads of a phrase; left out, what its folder says, else the default.
            observe: called after each round of a batch, with the query ids of the batch.
            predict: called with each query's id and its phrases, best first.
        """
        if unit not in UNITS:
            raise TourError(f"there is no unit {unit!r}; choose one of {', '.join(UNITS)}.")
        self._unit, self._predict = unit, predict
        self._shown = shown or read_phrase_input(reranker)
        super().__init__(searcher, reranker, searcher.texts, config, observe=observe)

    def phrases(self, query: str, k: int = 10, threads: int = 1) -> list[PhraseHit]:
        """The k best phrases for a query, best first."""
        return self.batch_phrases([query], ["query"], k, threads)[1]["query"]

    def batch_phrases(
        self, queries: Any, q_ids: list[str], k: int = 10, threads: int = 1
    ) -> tuple[Floats, dict[str, list[PhraseHit]]]:
        """The optimised vectors [n, 2 d] and the k best phrases of each query by its id."""
        vectors, found = self._run(queries, q_ids, k, threads)
        return vectors, {q_id: hits[:k] for q_id, hits in found.items()}

    def batch_run(
        self,
        queries: Any,
        q_ids: list[str],
        k: int = 10,
        threads: int = 1,
        *,
        hit_vectors: bool = False,
        shared: SharedLabels | None = None,
    ) -> tuple[Floats, dict[str, list[Any]]]:
        """The optimised vectors [n, 2 d] and the k best passages by query id."""
        if hit_vectors:
            raise TourError("passages found by their phrases have no vectors; ask for phrases.")
        vectors, found = self._run(queries, q_ids, k, threads, shared)
        for q_id, hits in found.items():
            if self._predict:
                self._predict(q_id, hits[:k])
        return vectors, {q_id: self._by_passage(hits)[:k] for q_id, hits in found.items()}

    def rounds(self, *_: Any, **__: Any) -> Any:
        """Not for phrases: the lists on the way are of phrases and passages mixed."""
        raise TourError("a search of phrases does not hand over its rounds; use phrases or batch_phrases.")

    def share_labels(
        self, queries: Sequence[Any], q_ids: Sequence[str], k: int = 10, threads: int = 1, *, batch_size: int = 64
    ) -> SharedLabels | None:
        """How the queries of a run share their labels; see `TourEngine`."""
        return super().share_labels(queries, q_ids, self._room(k), threads, batch_size=batch_size)

    def _room(self, k: int) -> int:
        """Hits for the k best phrases and as many passages below them."""
        return 2 * max(k, self._optimiser.retrieval.least_hits)

    def _run(
        self, queries: Any, q_ids: list[str], k: int, threads: int, shared: SharedLabels | None = None
    ) -> tuple[Floats, dict[str, list[PhraseHit]]]:
        vectors, found = super().batch_run(queries, q_ids, self._room(k), threads, shared=shared)
        return vectors, {q_id: [self._hit(hit) for hit in hits] for q_id, hits in found.items()}

    def _hit(self, hit: Any) -> PhraseHit:
        span = PhraseSpan.parse(hit.docid)
        _, text = title_and_text(self.searcher.texts, span)
        return PhraseHit(*span, text=text[span.begin : span.end], score=hit.score)

    def _retrieval(self, **options: Any) -> Retrieval:
        return _PhraseRetrieval(self.searcher, self.config, self.costs, unit=self._unit, **options)

    def _labels(self, reranker: Any) -> PassageLabels:
        texts, docids = self.searcher.texts, self.searcher.docids
        return _PhraseLabels(reranker, texts, docids, self.costs, shown=self._shown)

    def _by_passage(self, hits: Sequence[PhraseHit]) -> list[Any]:
        """Passages in the order of their first phrases, with its score."""
        best: dict[str, float] = {}
        for hit in hits:
            best.setdefault(hit.docid, hit.score)
        return [self.hit_class(docid, score, texts=self._texts) for docid, score in best.items()]


class _PhraseRetrieval(Retrieval):
    """Finds phrases, and passages by their best phrase."""

    def __init__(self, searcher: PhraseSearcher, *arguments: Any, unit: str, **options: Any) -> None:
        self._finder, self._unit = searcher.finder, unit
        super().__init__(searcher, *arguments, **options)

    def search(self, vectors: Floats, k: int, own: Ids, threads: int) -> Hits:
        with self._costs.stage("search"):
            passages = max(k // 2, self.least_hits)
            phrases = passages if self._unit == "phrase" else 0
            return self._finder.find(
                np.asarray(vectors, dtype=np.float32), phrases=phrases, passages=passages, threads=threads
            )

    def _open_vectors(self) -> Vectors:
        return self._finder.vectors


@dataclass(frozen=True)
class _PhraseLabels(PassageLabels):
    """Labels of phrases; `shown` says what the re-ranker reads of one."""

    shown: PhraseInput

    def passage(self, docid: str) -> str:
        assert self.texts is not None
        span = PhraseSpan.parse(docid)
        title, text = title_and_text(self.texts, span)
        return self.shown(title, text, span.begin, span.end)
