"""The relevance-feedback query of Qdrant, as an update rule: it runs on any store, in the loop and under its budget."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.distributions import softmax
from tour_pyserini.core.methods.method import Method
from tour_pyserini.core.settings import POSITIVE, Settings, setting


@dataclass(frozen=True, kw_only=True)
class QdrantFeedbackSettings(Settings):
    """The three weights of Qdrant's naive strategy. Qdrant wants them trained for each collection and re-ranker."""

    qdrant_a: float = setting(0.12, "Qdrant's feedback: weight of the query (a)", rule=POSITIVE)
    qdrant_b: float = setting(0.43, "Qdrant's feedback: power of the difference of two labels (b)", rule=POSITIVE)
    qdrant_c: float = setting(0.03, "Qdrant's feedback: weight of a pair of passages (c)", rule=POSITIVE)


class QdrantFeedback(Method):
    """Qdrant's relevance feedback (naive strategy): a q + c sum over pairs of (s_i - s_j)^b (v_i - v_j).

    Qdrant (1.17 and later) scores a passage by a sim(q, x) + c sum (s_i - s_j)^b (sim(v_i, x) - sim(v_j, x)), over all
    pairs of labelled passages with s_i > s_j. For inner products, that is a search with the vector above. A few labels
    are enough, its documentation says.
    """

    Settings = QdrantFeedbackSettings
    keeps_labels = True
    shared_defaults = MappingProxyType({"iterations": 1, "depth": 5})

    def target(self, candidates: Candidates) -> Floats:
        """softmax(s), for traces: the rule itself has no target."""
        return softmax(candidates.labels.astype(np.float64))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The vector that Qdrant's query is a search with, from q_0."""
        labels = np.where(candidates.mask, candidates.labels, 0).astype(np.float64)
        gaps = labels[:, :, None] - labels[:, None, :]
        pairs = (gaps > 0) & candidates.mask[:, :, None] & candidates.mask[:, None, :]
        weights = np.where(pairs, np.where(pairs, gaps, 1.0) ** self.settings.qdrant_b, 0.0)
        weights = weights.sum(axis=2) - weights.sum(axis=1)  # as the better of a pair, and as the worse
        moved = np.einsum("nk,nkd->nd", weights, candidates.vectors.astype(np.float64))
        return (self.settings.qdrant_a * self.start[rows] + self.settings.qdrant_c * moved).astype(query.dtype)
