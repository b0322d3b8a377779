"""TouR's update as one of Pyserini's dense PRF rules."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.calibration import moments, scale_of_each
from tour_pyserini.core.candidates import Candidates
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import offsets_among
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import checked_scores
from tour_pyserini.searchers.dense_signal import as_signal, listed
from tour_pyserini.stores.index_scales import given_scale
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import found_by
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.search.faiss import PrfDenseSearchResult  # noqa: E402
from pyserini.search.faiss._prf import DenseVectorPrf  # noqa: E402


class TourPrf(DenseVectorPrf):
    """One update of a query from the candidates it is given; the caller retrieves again.

    Pyserini hands a PRF rule vectors and ids but no query text: `topics` has the texts by id, or a single query's
    text is passed along. Further signals are asked for the query's text, and what they say is compared among the
    candidates that the rule is given; it knows no others.

    Example:
        prf = TourPrf("default", "scifact/corpus.jsonl", topics={"q1": "do statins prevent stroke"})
        vectors, candidates = searcher.batch_search(["do statins prevent stroke"], ["q1"], k=10, return_vector=True)
        hits = searcher.batch_search(prf.get_batch_prf_q_emb(["q1"], vectors, candidates), ["q1"])
    """

    def __init__(
        self,
        reranker: Any = "default",
        texts: Mapping[str, str] | str | None = None,
        config: TourConfig | None = None,
        *,
        topics: Mapping[str, str] | None = None,
        signals: Sequence[Any] = (),
        scale: float | str | os.PathLike[str] | None = None,
    ) -> None:
        """Set up the rule; its candidates are those it is given, not `config.depth`, and its updates one.

        Args:
            reranker: where labels come from: anything `load_reranker` takes.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            topics: the texts of queries by their ids.
            signals: what else says something of the candidates, each anything `as_signal` takes.
            scale: the factor that puts similarities on the scale of labels: a number, or the index that `calibrate`
                stored it beside; None: each query finds its own, from its own labels.
        """
        super().__init__()
        config = config or TourConfig()
        self.config = config.replace(iterations=1, budget=0, mean_budget=0)
        method = config.method_class
        if method.needs_labels and texts is None:
            raise TourError(f"the method {config.method} reads passages: give their texts (the corpus).")
        self._texts = open_texts(texts) if texts is not None else {}
        self._reranker = load_reranker(reranker) if method.needs_labels else None
        if not isinstance(topics, Mapping | None):
            raise TourError(f"topics is a mapping from query id to text, not {type(topics).__name__}.")
        self._topics = topics or {}
        self._signals = [as_signal(signal) for signal in listed(signals)]
        self._scale = given_scale(scale, reranker=getattr(self._reranker, "fingerprint", None))

    def get_prf_q_emb(
        self, emb_qs: np.ndarray, prf_candidates: list[PrfDenseSearchResult], query: str | None = None
    ) -> np.ndarray:
        """The updated vector [d] of the query of that text and vector [d]; the same where it may stop already."""
        if (self._reranker or self._signals) and not query:
            raise TourError("TourPrf labels candidates and needs the query's text: pass query=, or topics= and ids.")
        vector = np.asarray(emb_qs, dtype=np.float32).reshape(1, -1)
        if not prf_candidates:
            return vector[0]
        vectors = np.array([[hit.vectors for hit in prf_candidates]], dtype=np.float32)
        labels = np.zeros((1, len(prf_candidates)))
        if self._reranker and query:
            labels[0] = checked_scores(self._reranker, [(query, self._texts[hit.docid]) for hit in prf_candidates])
        # A hit's score may be anything by now; its similarity is its vector's with the query's.
        products = np.einsum("nkd,nd->nk", vectors, vector)
        offsets = self._offsets([hit.docid for hit in prf_candidates], products[0], query)[None]
        similarities = products + offsets
        ids = np.arange(len(prf_candidates))[None]
        method = self.config.new_method(vector)
        scale = np.full(1, self.config.similarity_scale)
        if self.config.calibrates and self._scale is not None:
            scale = np.full(1, self._scale)
        elif self.config.calibrates:
            scale = scale_of_each(moments(similarities, labels, ids >= 0))
        candidates = Candidates(ids, vectors, scale[:, None] * similarities, labels, scale, offsets)
        if self.config.early_stopping and method.agrees(candidates)[0]:
            return vector[0]
        return method.update(np.zeros(1, dtype=np.int64), vector, candidates, method.target(candidates), 0)[0]

    def get_batch_prf_q_emb(
        self, topic_ids: list[str], emb_qs: np.ndarray, prf_candidates: dict[str, list[PrfDenseSearchResult]]
    ) -> np.ndarray:
        """The updated vectors [n, d] of the queries of these ids."""
        texts_needed = self._reranker or self._signals
        unknown = [id_ for id_ in topic_ids if texts_needed and id_ not in self._topics]
        if unknown:
            raise TourError(f"TourPrf knows no text of the query {unknown[0]!r}: add it to topics=.")
        return np.array(
            [
                self.get_prf_q_emb(vector, prf_candidates[id_], self._topics.get(id_))
                for id_, vector in zip(topic_ids, emb_qs, strict=True)
            ],
            dtype=np.float32,
        )

    def _offsets(self, docids: list[str], products: np.ndarray, query: str | None) -> np.ndarray:
        """What the signals say of the candidates, [k], in units of their inner products [k] with the query's vector."""
        if not self._signals or not query:
            return np.zeros(len(docids), dtype=products.dtype)
        positions = _Numbered(zip(docids, range(len(docids)), strict=True))
        found = [found_by(signal, [query], SIGNAL_HITS, positions) for signal in self._signals]
        ids = np.arange(len(docids))
        return offsets_among(ids, products.astype(np.float64), found, weight=self.config.signal_weight)


class _Numbered(dict[str, int]):
    """Gives every docid a position: which documents the index has, a PRF rule does not know."""

    def __contains__(self, docid: object) -> bool:
        return True

    def __missing__(self, docid: str) -> int:
        self[docid] = len(self)
        return self[docid]
