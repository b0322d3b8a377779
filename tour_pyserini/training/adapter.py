"""Fit a correction of query vectors to labels, and choose how strong and how wide it is on queries that are held out.

A query q and a passage p have the logit t p . q + p^T W q. The softmax of these logits, over a query's labelled
passages and a background of random ones, is moved towards the softmax of the labels (0 for the background) by
minimising the mean cross-entropy plus ridge / 2 |W|^2. The problem is convex in (t, W): its minimum does not depend on
where the search for it starts. The correction is then q + M q with M = W / t, cut to a low rank by its singular values.
Vectors are in units of their root mean square length, so that a ridge means the same for every encoder.

The background is there because only passages near a query are labelled. Among those alone, similarity says little about
labels, so t would be far too small and M = W / t far too large.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.encoders.query_adapter import corrected
from tour_pyserini.evaluation.paired_tests import t_p
from tour_pyserini.stores.store import Store

FOLDS = 5
_RIDGES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""From strong to weak."""
_RANKS = (16, 64, 256)
SHARPNESS = 2.0
"""Of the targets that labels stand for, per standard deviation of the labels of a query."""
_DEPTH = 100
"""Hits among which a passage is looked for; one that is not there has the reciprocal rank 0."""
_START = 10.0
"""The scale of similarities, of vectors of length 1, at which the search for the minimum begins."""
_MOST_STEPS = 100
_LEAST_STEP = 1e-6
"""The search for the minimum ends when a step lowers the loss by a smaller share; rankings do not change after that."""
BLOCK = 512
"""Queries whose candidate vectors are in memory at a time."""
_LEAST_SCALE = 1e-3


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


def low_rank(matrix: Floats, rank: int) -> tuple[Floats, Floats]:
    """The best U [d, r] and V [d, r] with U V^T near a matrix [d, d]: its largest singular values."""
    left, values, right = np.linalg.svd(matrix)
    roots = np.sqrt(values[:rank])
    return left[:, :rank] * roots, right[:rank].T * roots


@dataclass(frozen=True)
class LabelledQueries:
    """Queries with labels of some of the passages near them.

    Attributes:
        queries: vectors [n, d].
        passages: vectors of all passages that are labelled for some query [u, d].
        positions: their positions in the index [u].
        candidates: rows of `passages` [n, m]; -1 where a query has fewer than m labels.
        labels: the re-ranker's scores [n, m]; NaN where there is no candidate.
        background: positions in the index of random passages [k].
        background_vectors: their vectors [k, d].
    """

    queries: Floats
    passages: Floats
    positions: Ids
    candidates: Ids
    labels: Floats
    background: Ids
    background_vectors: Floats

    @property
    def count(self) -> int:
        """How many labels there are."""
        return int((self.candidates >= 0).sum())

    def targets(self) -> Floats:
        """The distributions [n, m] that labels stand for: softmax of the labels in units of their spread.

        The spread is the standard deviation of labels around the mean of their query. It is one unit for all queries,
        because a query whose labels hardly differ says little; in units of its own it would say as much as every other.
        """
        centred = self.labels - np.nanmean(self.labels, axis=1, keepdims=True)
        spread = float(np.sqrt(np.nanmean(centred**2)))
        logits = np.where(np.isnan(self.labels), -np.inf, self.labels) * (SHARPNESS / spread)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def is_labelled(self, rows: slice) -> np.ndarray:
        """Whether a query in these rows has a label of a background passage, bool [b, k]."""
        candidates = self.candidates[rows]
        labelled = np.where(candidates >= 0, self.positions[candidates], -1)
        return (labelled[:, :, None] == self.background).any(axis=1)

    def only(self, rows: Ids) -> Self:
        """The queries in these rows."""
        return replace(self, queries=self.queries[rows], candidates=self.candidates[rows], labels=self.labels[rows])

    def cross_entropy(self, targets: Floats, scale: float, matrix: Floats) -> tuple[float, float, Floats]:
        """The mean cross-entropy of targets [n, m] and the softmax of the logits t p . q + p^T W q, and its gradient.

        Args:
            targets: a distribution over each query's candidates.
            scale: t.
            matrix: W [d, d].

        Returns:
            the loss, its derivative by t, and its gradient by W [d, d].
        """
        count, dimension = self.queries.shape
        loss, by_scale = 0.0, 0.0
        by_matrix = np.zeros((dimension, dimension))
        for start in range(0, count, BLOCK):
            rows = slice(start, start + BLOCK)
            queries, mask = self.queries[rows], self.candidates[rows] >= 0
            vectors = self.passages[self.candidates[rows]]  # [b, m, d]; row -1 is masked
            moved = (scale * queries + queries @ matrix.T.astype(queries.dtype)).astype(queries.dtype)
            logits = np.where(mask, np.matmul(vectors, moved[:, :, None])[:, :, 0], -np.inf).astype(np.float64)
            others = np.where(self.is_labelled(rows), -np.inf, moved @ self.background_vectors.T)
            highest = np.maximum(logits.max(axis=1), others.max(axis=1, initial=-np.inf))[:, None]
            logits, others = logits - highest, np.exp(others - highest)
            powers = np.exp(logits)
            total = powers.sum(axis=1, keepdims=True) + others.sum(axis=1, keepdims=True)
            loss += float((np.log(total[:, 0]) - (targets[rows] * np.where(mask, logits, 0.0)).sum(axis=1)).sum())
            residuals = (powers / total - targets[rows]).astype(queries.dtype)
            gradients = np.matmul(residuals[:, None, :], vectors)[:, 0, :]  # [b, d], by the moved query
            gradients += (others / total).astype(queries.dtype) @ self.background_vectors
            by_scale += float((gradients * queries).sum(dtype=np.float64))
            by_matrix += gradients.T @ queries
        return loss / count, by_scale / count, by_matrix / count

    def fit(self, targets: Floats, ridges: Sequence[float]) -> list[Floats]:
        """The matrices M [d, d] of the corrections q + M q, one for each ridge, which must become weaker.

        Each search starts from the result of the stronger ridge before it. M does not depend on the lengths of vectors:
        it stays the same if all queries, or all passages and the background, are multiplied by a number.
        """
        from scipy.optimize import minimize

        # Both units go to the queries, which are fewer: t and W see no more than the products of queries and passages.
        unit = _mean_length(self.queries) * _mean_length(self.passages, self.background_vectors)
        data = replace(self, queries=self.queries / unit)
        dimension = data.queries.shape[1]
        # t is searched in units of _START, so that one step of the search suits t as well as W.
        values = np.concatenate([[1.0], np.zeros(dimension * dimension)])
        matrices = []
        for ridge in ridges:

            def objective(values: Floats, ridge: float = ridge) -> tuple[float, Floats]:
                matrix = values[1:].reshape(dimension, dimension)
                loss, by_scale, by_matrix = data.cross_entropy(targets, _START * values[0], matrix)
                gradient = np.concatenate([[_START * by_scale], (by_matrix + ridge * matrix).ravel()])
                return loss + ridge / 2 * float((matrix**2).sum()), gradient

            bounds = [(_LEAST_SCALE, None)] + [(None, None)] * (dimension * dimension)
            options = {"maxiter": _MOST_STEPS, "ftol": _LEAST_STEP}
            values = minimize(objective, values, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
            matrices.append(values[1:].reshape(dimension, dimension) / (_START * values[0]))
        return matrices

    def choose(self, folds: Ids, store: Store) -> Choice:
        """Choose ridge and rank by the order of held-out queries' labels, then test that choice by searches.

        The choice compares all settings by nDCG over each held-out query's labelled passages, which needs no search.
        The test is another one: it sees all passages, also those that a correction would bring up wrongly. It is
        strict, since a passage without a label that is brought up counts as wrong even if it is right.

        Args:
            folds: the number of each query's fold [n]; a query is held out with its fold.
            store: the index.
        """
        targets = self.targets()
        ranks = sorted({min(rank, self.queries.shape[1]) for rank in _RANKS})
        moved: dict[tuple[float, int], Floats] = {
            (ridge, rank): np.empty_like(self.queries) for ridge in _RIDGES for rank in ranks
        }
        for fold in np.unique(folds):
            fitted, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            for ridge, matrix in zip(_RIDGES, self.only(fitted).fit(targets[fitted], _RIDGES), strict=True):
                for rank in ranks:
                    moved[ridge, rank][held_out] = corrected(self.queries[held_out], *low_rank(matrix, rank))
        # Equal means: the stronger ridge and the lower rank, which come first.
        ridge, rank = max(moved, key=lambda key: self.order_quality(targets, moved[key]))
        before = self.reciprocal_ranks(self.queries, store)
        gained = self.reciprocal_ranks(moved[ridge, rank], store) - before
        return Choice(ridge, rank, float(before.mean()), float(gained.mean()), t_p(gained))

    def order_quality(self, targets: Floats, queries: Floats) -> float:
        """Mean nDCG of each query's labelled passages in the order of their similarities.

        Args:
            targets: their gains [n, m].
            queries: the vectors [n, d] whose similarities order them.
        """
        from sklearn.metrics import ndcg_score

        rows = zip(queries, self.candidates, strict=True)
        similarities = np.array([self.passages[candidates] @ query for query, candidates in rows])
        last = similarities.min() - 1  # for what is no candidate
        return float(ndcg_score(targets, np.where(self.candidates >= 0, similarities, last), ignore_ties=True))

    def reciprocal_ranks(self, queries: Floats, store: Store) -> Floats:
        """1 / rank [n] of the passage with each query's best label, when the index is searched with vectors [n, d]."""
        best = np.nanargmax(self.labels, axis=1)[:, None]
        wanted = self.positions[np.take_along_axis(self.candidates, best, axis=1)]  # [n, 1]
        hits = np.concatenate([store.search(queries[i : i + 64], _DEPTH).ids for i in range(0, len(queries), 64)])
        is_wanted = hits == wanted
        return np.where(is_wanted.any(axis=1), 1 / (1.0 + is_wanted.argmax(axis=1)), 0.0)


def _mean_length(*vectors: Floats) -> float:
    """The root mean square length of vectors, in parts [n, d]; 1 where all are 0."""
    squares = sum(float(np.einsum("nd,nd->n", part, part).sum(dtype=np.float64)) for part in vectors)
    return float(np.sqrt(squares / max(sum(map(len, vectors)), 1))) or 1.0
