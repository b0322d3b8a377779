"""ORE: the relevance of a large pool estimated from a few features, again after each batch of labels.

After "Breaking the Lens of the Telescope: Online Relevance Estimation over Large Retrieval Sets" (Rathee et al., 2025).
The paper's: estimated relevance is linear in features of a query and a document (scores of lexical and dense retrieval)
and of documents among themselves (affinity to the best that the re-ranker has read); the documents of the highest
estimate are read next, a batch at a time, and the weights are found online from the scores; the pool has what several
retrievers found (`--sparse`) and the neighbours of the best. Different here: weights are those of ridge regression on
all labels so far, without a term for exploration; affinity is the inner product, not a learnt one, weighted by how far
labels stand out.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from exploring import NeighbourSettings, best_labelled, explore, once

from tour_pyserini.core.arrays import Floats, Ids, Ranking
from tour_pyserini.core.distributions import standardise
from tour_pyserini.core.label_pool import LabelPool
from tour_pyserini.core.method import Neighbours, Query, Request, Run, Vectors, method, register_method
from tour_pyserini.core.settings import AT_LEAST_1, AT_LEAST_2, setting

RIDGE = 1.0
"""Weight of the prior that no feature says anything, in labels; features have unit variance in the pool."""


@dataclass(frozen=True, kw_only=True)
class OreSettings(NeighbourSettings):
    """How large the pool is, and which documents affinity is counted to."""

    best: int = setting(5, "how many passages with the highest labels have their neighbours looked up", rule=AT_LEAST_2)
    pool: int = setting(100, "first hits of the retrieval whose relevance is estimated", rule=AT_LEAST_1)


@method(OreSettings)
def ore(query: Query, settings: OreSettings) -> Run:
    """Label the candidates whose relevance a linear model estimates highest, and fit the model again."""

    def choose(t: int, found: Ranking, labelled: LabelPool) -> Generator[Request, Any, Ids]:
        if len(labelled) < 2:
            return found.ids
        best = best_labelled(labelled)[: settings.best]
        near = yield Neighbours(best, settings.neighbours)
        candidates = labelled.without(once([found.ids[: settings.pool], *near]))
        if not len(candidates):
            return candidates
        vectors = yield Vectors(np.concatenate([labelled.ids, candidates]))
        features = _features(query, np.concatenate([labelled.ids, candidates]), vectors.astype(np.float64), labelled)
        weights = _fit(features[: len(labelled)], labelled.labels)
        # Term by term: a sum must not be rounded differently where the pool is larger.
        estimates = (features[len(labelled) :] * weights).sum(axis=1)
        return candidates[np.argsort(-estimates, kind="stable")]

    def _features(query: Query, ids: Ids, vectors: Floats, labelled: LabelPool) -> Floats:
        """[m, f] the features of documents [m], of which the first are the labelled ones; standardised."""
        best = np.argsort(-labelled.labels, kind="stable")[: settings.best]
        affinity = vectors @ vectors[best].T
        shares = np.tile(np.exp(standardise(labelled.labels))[best], (len(ids), 1))
        shares[best, range(len(best))] = 0  # what is best has its affinity to the others
        shares = shares / shares.sum(axis=1, keepdims=True)
        columns = [
            (vectors * query.vector.astype(np.float64)).sum(axis=1),
            *(signal.of(ids) for signal in query.fusion.signals),
            (shares * affinity).sum(axis=1),
        ]
        features = np.stack(columns, axis=1)
        spread = features.std(axis=0)
        return (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)

    return (yield from explore(query, settings, choose, hits=settings.pool))


def _fit(features: Floats, labels: Floats) -> Floats:
    """The weights [f] of ridge regression of the labels [m] on the features [m, f], with a free intercept."""
    centred = features - features.mean(axis=0)
    system = centred.T @ centred + RIDGE * np.eye(features.shape[1])
    return np.linalg.solve(system, centred.T @ (labels - labels.mean()))


register_method(ore)
