"""ORE: the relevance of a large pool estimated from a few features, again after each batch of labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.methods.exploring import Exploring, NeighbourSettings, once
from tour_pyserini.core.mixing import odds
from tour_pyserini.core.settings import AT_LEAST_1, AT_LEAST_2, setting

RIDGE = 1.0
"""Weight of the prior that no feature says anything, in labels; features have unit variance in the pool."""


@dataclass(frozen=True, kw_only=True)
class PoolSettings(NeighbourSettings):
    """How large the pool is, and which documents affinity is counted to."""

    best: int = setting(5, "how many passages with the highest labels have their neighbours looked up", rule=AT_LEAST_2)
    pool: int = setting(100, "first hits of the retrieval whose relevance is estimated", rule=AT_LEAST_1)


class Ore(Exploring):
    """Labels the candidates of the pool whose relevance a linear model estimates highest, and fits the model again.

    After "Breaking the Lens of the Telescope: Online Relevance Estimation over Large Retrieval Sets" (Rathee et al.,
    2025). The paper's: estimated relevance is linear in features of a query and a document (scores of lexical and
    dense retrieval) and of documents among themselves (affinity to the best that the re-ranker has read); the
    documents of the highest estimate are read next, a batch at a time, and the weights are found online from the
    scores; the pool has what several retrievers found (`--sparse`) and the neighbours of the best. Different here:
    weights are those of ridge regression on all labels so far, without a term for exploration; affinity is the inner
    product, not a learnt one, weighted by how far labels stand out; the final list is that of all methods here.
    """

    Settings = PoolSettings

    @classmethod
    def least_hits(cls, settings: Any) -> int:
        """The pool, or a document's neighbours and the document itself."""
        return max(settings.pool, super().least_hits(settings))

    def _order(self, row: int, hits: Ids, view: CorpusView) -> Ids:
        known = view.labelled(row)
        if len(known.ids) < 2:
            return hits[: view.wanted]
        near = view.neighbours(row, known.ids[: self.settings.best], self.settings.neighbours)
        pool = once([hits[: self.settings.pool], *near])
        pool = pool[~np.isin(pool, known.ids)]
        features = self._features(row, np.concatenate([known.ids, pool]), known.labels, view)
        weights = _fitted(features[: len(known.ids)], known.labels)
        # Term by term: a sum must not be rounded differently where the pool is larger.
        estimates = (features[len(known.ids) :] * weights).sum(axis=1)
        return pool[np.argsort(-estimates, kind="stable")]

    def _features(self, row: int, ids: Ids, labels: Floats, view: CorpusView) -> Floats:
        """[m, f] the features of documents [m], of which the first have the labels, best first; standardised."""
        vectors = view.vectors(ids)
        best = min(self.settings.best, len(labels))
        affinity = vectors @ vectors[:best].T
        shares = np.tile(odds(labels[:best], labels), (len(ids), 1))
        shares[range(best), range(best)] = 0  # what is best has its affinity to the others
        shares = shares / shares.sum(axis=1, keepdims=True)
        columns = [
            view.inner_products(row, ids)[:, None],
            view.signal_scores(row, ids),
            (shares * affinity).sum(axis=1, keepdims=True),
        ]
        features = np.concatenate(columns, axis=1)
        spread = features.std(axis=0)
        return (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)


def _fitted(features: Floats, labels: Floats) -> Floats:
    """The weights [f] of ridge regression of the labels [m] on the features [m, f], with a free intercept."""
    centred = features - features.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(features.shape[1])
    return np.linalg.solve(system, centred.T @ (labels - labels.mean()))
