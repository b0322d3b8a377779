"""Choose how strong and how wide a correction of query vectors is, and test it, on queries that were held out."""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.encoders.query_adapter import corrected
from tour_pyserini.evaluation.paired_tests import t_p
from tour_pyserini.stores.store import Store
from tour_pyserini.training.adapter_fit import LabelledQueries, fit_matrices, label_spread, label_targets, low_rank

FOLDS = 5
RIDGES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""From strong to weak."""
RANKS = (16, 64, 256)
SHARPNESS = 2.0
"""Of the targets that labels stand for, per standard deviation of the labels of a query."""
DEPTH = 100
"""Hits among which a passage is looked for; one that is not there has the reciprocal rank 0."""


class Choice(NamedTuple):
    """Settings of a correction, and what it gains on held-out queries.

    Attributes:
        ridge: the strength of the ridge.
        rank: the rank of the correction.
        before: mean reciprocal rank, in a search of the whole index, of the passage with a query's best label.
        gain: what the correction adds to it.
        p: p value of the gain, by the paired t test.
    """

    ridge: float
    rank: int
    before: float
    gain: float
    p: float


def targets_of(data: LabelledQueries) -> Floats:
    """The distributions [n, m] that the labels stand for."""
    return label_targets(data.labels, spread=label_spread(data.labels), sharpness=SHARPNESS)


def choose(data: LabelledQueries, folds: Ids, store: Store) -> Choice:
    """Choose ridge and rank by the order of held-out queries' labels, then test that choice by searches of the index.

    The choice compares all settings by nDCG over each held-out query's labelled passages, which needs no search. The
    test is another one: it sees all passages, also those that a correction would bring up wrongly. It is strict, since
    a passage without a label that is brought up counts as wrong even if it is right.

    Args:
        data: the queries.
        folds: the number of each query's fold [n]; a query is held out with its fold.
        store: the index.
    """
    targets = targets_of(data)
    ranks = sorted({min(rank, data.queries.shape[1]) for rank in RANKS})
    moved: dict[tuple[float, int], Floats] = {
        (ridge, rank): np.empty_like(data.queries) for ridge in RIDGES for rank in ranks
    }
    for fold in np.unique(folds):
        fitted, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        for ridge, matrix in zip(RIDGES, fit_matrices(data.only(fitted), targets[fitted], RIDGES), strict=True):
            for rank in ranks:
                moved[ridge, rank][held_out] = corrected(data.queries[held_out], *low_rank(matrix, rank))
    # Equal means: the stronger ridge and the lower rank, which come first.
    ridge, rank = max(moved, key=lambda key: float(order_quality(data, targets, moved[key]).mean()))
    before = reciprocal_ranks(data, data.queries, store)
    gained = reciprocal_ranks(data, moved[ridge, rank], store) - before
    return Choice(ridge, rank, float(before.mean()), float(gained.mean()), t_p(gained))


def order_quality(data: LabelledQueries, targets: Floats, queries: Floats) -> Floats:
    """NDCG [n] of each query's labelled passages in the order of their similarities; targets [n, m] are the gains.

    Args:
        data: the labelled passages.
        targets: their gains.
        queries: the vectors [n, d] whose similarities order them.
    """
    discounts = 1 / np.log2(np.arange(2, data.candidates.shape[1] + 2))
    ideal = -np.sort(-targets, axis=1) @ discounts
    found = np.empty(len(queries))
    for row, (query, candidates) in enumerate(zip(queries, data.candidates, strict=True)):
        similarities = np.where(candidates >= 0, data.passages[candidates] @ query, -np.inf)
        found[row] = targets[row][np.argsort(-similarities, kind="stable")] @ discounts
    return found / ideal


def reciprocal_ranks(data: LabelledQueries, queries: Floats, store: Store) -> Floats:
    """1 / rank [n] of the passage with each query's best label, when the index is searched with vectors [n, d]."""
    best = np.nanargmax(data.labels, axis=1)[:, None]
    wanted = data.positions[np.take_along_axis(data.candidates, best, axis=1)]  # [n, 1]
    hits = np.concatenate([store.search(queries[i : i + 64], DEPTH).ids for i in range(0, len(queries), 64)])
    is_wanted = hits == wanted
    return np.where(is_wanted.any(axis=1), 1 / (1.0 + is_wanted.argmax(axis=1)), 0.0)
