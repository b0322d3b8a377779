"""TouR as a model that MTEB evaluates, on retrieval and re-ranking tasks; needs the extra `mteb`."""

from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.config import TourConfig
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.searchers.list_reranker import DocumentList, TourReranker
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.support.packages import import_optional

import_optional("mteb", extra="mteb")

from mteb.models import ModelMeta  # noqa: E402

BATCH = 64
"""Queries that advance together."""


class TourModel:
    """A search model of MTEB's: an encoder finds candidates, and TouR optimises the queries.

    In re-ranking tasks, the candidates of a query are ranked by their vectors and labels; their order says nothing.

    Example:
        model = TourModel(SentenceTransformer("intfloat/e5-small-v2"), "default", TourConfig(budget=30))
        mteb.evaluate(model, mteb.get_tasks(["SciFact"]))
    """

    def __init__(self, encoder: Any, reranker: Any = "default", config: TourConfig | None = None) -> None:
        """Search with an encoder.

        Args:
            encoder: a SentenceTransformer, or an object with its `encode_query` and `encode_document`.
            reranker: where labels come from: anything `load_reranker` takes.
            config: the method and its settings.
        """
        self._encoder, self._config = encoder, config or TourConfig()
        self._reranker = load_reranker(reranker) if self._config.most_labels else None
        self._positions: dict[str, int] = {}
        self._texts: list[str] = []
        self._vectors: Floats = np.empty((0, 0), dtype=np.float32)

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What MTEB writes beside results."""
        return ModelMeta.create_empty({"name": f"tour_pyserini/{self._config.method}"})

    def index(self, corpus: Any, **_: Any) -> None:
        """Encode a corpus: records with `id`, `text` and perhaps `title`."""
        self._texts = [f"{one.get('title') or ''} {one['text']}".strip() for one in corpus]
        self._positions = {str(one["id"]): position for position, one in enumerate(corpus)}
        self._vectors = np.asarray(self._encoder.encode_document(self._texts), dtype=np.float32)

    def search(self, queries: Any, *, top_k: int, top_ranked: Any = None, **_: Any) -> dict[str, dict[str, float]]:
        """The scores of the best documents of each query, by ids; of those in `top_ranked` alone where it is given."""
        ids, texts = [str(one["id"]) for one in queries], [one["text"] for one in queries]
        found: dict[str, dict[str, float]] = {}
        searcher = TourSearcher.from_vectors(
            self._vectors, self._texts, self._encoder, self._reranker, self._config, docids=[*self._positions]
        )
        for start in range(0, len(ids), BATCH):
            some = slice(start, start + BATCH)
            if top_ranked is None:
                hits = searcher.batch_search(texts[some], ids[some], k=top_k)
                found |= {q_id: {hit.docid: hit.score for hit in hits[q_id]} for q_id in ids[some]}
            else:
                candidates = [top_ranked.get(q_id, []) for q_id in ids[some]]
                found |= self._rerank(ids[some], texts[some], candidates, top_k)
        return found

    def _rerank(
        self, ids: list[str], texts: list[str], candidates: list[list[str]], top_k: int
    ) -> dict[str, dict[str, float]]:
        lists = []
        for text, docids in zip(texts, candidates, strict=True):
            rows = [self._positions[docid] for docid in docids]
            vector = self._encoder.encode_query(text)
            lists.append(DocumentList(text, [self._texts[row] for row in rows], self._vectors[rows], None, vector))
        ranked = TourReranker(self._reranker, self._config).rank_lists(lists)
        return {
            q_id: {docids[one.position]: one.score for one in best[:top_k]}
            for q_id, docids, best in zip(ids, candidates, ranked, strict=True)
        }
