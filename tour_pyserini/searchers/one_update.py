"""One update of a query from candidates that somebody else retrieved. Nothing here needs Pyserini or Java."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.calibration import moments, scale_of_each
from tour_pyserini.core.candidates import Candidates, Floats
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import offsets_among
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import score_pairs
from tour_pyserini.searchers.dense_signal import as_signal, listed
from tour_pyserini.stores.index_scales import given_scale
from tour_pyserini.stores.signals import HITS as SIGNAL_HITS
from tour_pyserini.stores.signals import found_by


class Feedback:
    """One update of a query; what signals say is compared among the candidates given, as it knows no others.

    Attributes:
        config: what it computes: one update, from all candidates that it is given.
        labels: whether it reads passages.
        reads_query: whether it needs the query's text.
    """

    def __init__(
        self,
        reranker: Any = "default",
        config: TourConfig | None = None,
        *,
        signals: Sequence[Any] = (),
        scale: float | str | os.PathLike[str] | None = None,
    ) -> None:
        """Set up the rule.

        Args:
            reranker: where labels come from: anything `load_reranker` takes.
            config: the method and its settings.
            signals: what else says something of the candidates, each anything `as_signal` takes.
            scale: the factor that puts similarities on the scale of labels: a number, or the index that `calibrate`
                stored it beside; None: each query finds its own, from its own labels.
        """
        self.config = (config or TourConfig()).replace(iterations=1, budget=0, mean_budget=0)
        self.labels = self.config.method_class.needs_labels
        self._reranker = load_reranker(reranker) if self.labels else None
        self._signals = [as_signal(signal) for signal in listed(signals)]
        self._scale = given_scale(scale, reranker=getattr(self._reranker, "fingerprint", None))
        self.reads_query = self.labels or bool(self._signals)

    def updated(
        self,
        vector: Floats,
        vectors: Floats,
        *,
        docids: Sequence[str],
        passages: Sequence[str] = (),
        query: str | None = None,
    ) -> Floats:
        """The updated vector [d] of a query; the same where it may stop already.

        Args:
            vector: [d] the query's vector.
            vectors: [k, d] those of the candidates.
            docids: [k] their names, for signals.
            passages: [k] their passages, where the rule labels.
            query: the query's text, where the rule reads it.
        """
        row = np.asarray(vector, dtype=np.float32).reshape(1, -1)
        if not len(vectors):
            return row[0]
        stack = np.asarray(vectors, dtype=np.float32)[None]
        labels = np.zeros(stack.shape[:2])
        if self._reranker and query:
            labels[0] = score_pairs(self._reranker, [(query, passage) for passage in passages])
        # A candidate's score may be anything by now; its similarity is its vector's with the query's.
        products = np.einsum("nkd,nd->nk", stack, row)
        offsets = self._offsets(docids, products[0], query)[None]
        similarities = products + offsets
        ids = np.arange(len(docids))[None]
        method = self.config.new_method(row)
        scale = np.full(1, self.config.similarity_scale)
        if self.config.calibrates and self._scale is not None and not self._signals:
            scale = np.full(1, self._scale)
        elif self.config.calibrates:
            scale = scale_of_each(moments(similarities, labels, ids >= 0))
        candidates = Candidates(ids, stack, scale[:, None] * similarities, labels, scale, offsets)
        if self.config.early_stopping and method.agrees(candidates)[0]:
            return row[0]
        return method.update(np.zeros(1, dtype=np.int64), row, candidates, method.target(candidates), 0)[0]

    def _offsets(self, docids: Sequence[str], products: np.ndarray, query: str | None) -> np.ndarray:
        """What the signals say of the candidates, [k], in units of their inner products [k] with the query's vector."""
        if not self._signals or not query:
            return np.zeros(len(docids), dtype=products.dtype)
        positions = _Numbered(zip(docids, range(len(docids)), strict=True))
        found = [found_by(signal, [query], SIGNAL_HITS, positions) for signal in self._signals]
        ids = np.arange(len(docids))
        return offsets_among(ids, products.astype(np.float64), found, weight=self.config.signal_weight)


class _Numbered(dict[str, int]):
    """Gives every docid a position: which documents the index has, a rule of feedback does not know."""

    def __contains__(self, docid: object) -> bool:
        return True

    def __missing__(self, docid: str) -> int:
        self[docid] = len(self)
        return self[docid]
