"""TouR over phrases: the same methods, another index. Nothing here needs Pyserini or Java."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import PhraseSpan, title_and_text
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.phrase_searcher import UNITS, PhraseHit, PhraseSearcher
from tour_pyserini.searchers.searcher import Observer, TourSearcher

Predict = Callable[[str, Sequence[PhraseHit]], None]


class TourPhraseSearcher(TourSearcher):
    """Searches a phrase index with queries [start; end] that are optimised at test time.

    `phrases` and `batch_phrases` give phrases. `search`, `batch_search` and `batch_run` give passages: a passage has
    the score of its best phrase.

    Example:
        searcher = TourPhraseSearcher(PhraseSearcher(index, encoder, texts), "models/reranker")
        searcher.phrases("who got the first nobel prize in physics")[0].text
    """

    def __init__(
        self,
        searcher: PhraseSearcher,
        reranker: Any = "default",
        config: TourConfig | None = None,
        *,
        unit: str = "phrase",
        phrase_input: PhraseInput | None = None,
        observe: Observer | None = None,
        predict: Predict | None = None,
    ) -> None:
        """Wrap a searcher.

        Args:
            searcher: where candidates come from.
            reranker: where labels come from: anything `load_reranker` takes.
            config: the method and its settings.
            unit: what a candidate is: a `phrase`, or a `passage`, by its best phrase.
            phrase_input: what the re-ranker reads of a phrase; left out, what its folder says, else the default.
            observe: called with each query that has ended.
            predict: called with each query's id and its phrases, best first.
        """
        if unit not in UNITS:
            raise TourError(f"there is no unit {unit!r}; choose one of {', '.join(UNITS)}.")
        self._unit, self._predict = unit, predict
        self._phrase_input = phrase_input or read_phrase_input(reranker)
        super().__init__(searcher, reranker, searcher.texts, config, observe=observe)

    def phrases(self, query: str, k: int = 10, threads: int = 1) -> list[PhraseHit]:
        """The k best phrases for a query, best first."""
        return self.batch_phrases([query], ["query"], k, threads)[1]["query"]

    def batch_phrases(
        self, queries: Any, q_ids: list[str], k: int = 10, threads: int = 1
    ) -> tuple[Floats, dict[str, list[PhraseHit]]]:
        """The optimised vectors [n, 2 d] and the k best phrases of each query by its id."""
        vectors, found = self._find_phrases(queries, q_ids, k, threads)
        return vectors, {q_id: hits[:k] for q_id, hits in found.items()}

    def batch_run(
        self, queries: Any, q_ids: list[str], k: int = 10, threads: int = 1, *, hit_vectors: bool = False
    ) -> tuple[Floats, dict[str, list[Any]]]:
        """The optimised vectors [n, 2 d] and the k best passages by query id."""
        if hit_vectors:
            raise TourError("passages found by their phrases have no vectors; ask for phrases.")
        vectors, found = self._find_phrases(queries, q_ids, k, threads)
        for q_id, hits in found.items():
            if self._predict:
                self._predict(q_id, hits[:k])
        return vectors, {q_id: self._by_passage(hits)[:k] for q_id, hits in found.items()}

    def search(self, query: Any, k: int = 10, threads: int = 1, *_: Any, **__: Any) -> Any:
        """The k best passages for a query, best first."""
        queries = query.reshape(1, -1) if isinstance(query, np.ndarray) else [query]
        return self.batch_run(queries, ["query"], k, threads)[1]["query"]

    def rounds(self, *_: Any, **__: Any) -> Any:
        """Not for phrases: the lists on the way are of phrases and passages mixed."""
        raise TourError("a search of phrases does not hand over its rounds; use phrases or batch_phrases.")

    def _find_phrases(
        self, queries: Any, q_ids: list[str], k: int, threads: int
    ) -> tuple[Floats, dict[str, list[PhraseHit]]]:
        # Room for the k best phrases, and as many passages below them.
        room = 2 * max(k, self.config.values().get("depth", 0))
        vectors, found = super().batch_run(queries, q_ids, room, threads)
        return vectors, {q_id: [self._phrase(hit) for hit in hits] for q_id, hits in found.items()}

    def _phrase(self, hit: Any) -> PhraseHit:
        span = PhraseSpan.parse(hit.docid)
        _, text = title_and_text(self.searcher.texts, span)
        return PhraseHit(*span, text=text[span.begin : span.end], score=hit.score)

    def _by_passage(self, hits: Sequence[PhraseHit]) -> list[Any]:
        """Passages in the order of their first phrases, with its score."""
        best: dict[str, float] = {}
        for hit in hits:
            best.setdefault(hit.docid, hit.score)
        return [self.hit_class(docid, score, texts=self._texts) for docid, score in best.items()]

    def _search(self, vectors: Floats, k: int, excluded: Ids, threads: int) -> Hits:
        passages = k // 2
        phrases = passages if self._unit == "phrase" else 0
        vectors = np.asarray(vectors, dtype=np.float32)
        return self.searcher.finder.find(vectors, phrases=phrases, passages=passages, threads=threads)

    def _open_vectors(self) -> Callable[[Ids], Floats]:
        return self.searcher.finder.vectors

    def _passage(self, docid: str) -> str:
        span = PhraseSpan.parse(docid)
        title, text = title_and_text(self.searcher.texts, span)
        return self._phrase_input(title, text, span.begin, span.end)
