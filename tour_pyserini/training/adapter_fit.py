"""Fit a correction of query vectors to labels: one convex problem for each strength of the ridge.

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

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids

START = 10.0
"""The scale of similarities, of vectors of length 1, at which the search for the minimum begins."""
MOST_STEPS = 100
LEAST_STEP = 1e-6
"""The search for the minimum ends when a step lowers the loss by a smaller share; rankings do not change after that."""
BLOCK = 512
"""Queries whose candidate vectors are in memory at a time."""
_LEAST_SCALE = 1e-3


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

    def is_labelled(self, rows: slice) -> np.ndarray:
        """Whether a query in these rows has a label of a background passage, bool [b, k]."""
        candidates = self.candidates[rows]
        labelled = np.where(candidates >= 0, self.positions[candidates], -1)
        return (labelled[:, :, None] == self.background).any(axis=1)

    def only(self, rows: Ids) -> "LabelledQueries":
        """The queries in these rows."""
        return replace(self, queries=self.queries[rows], candidates=self.candidates[rows], labels=self.labels[rows])


def label_spread(labels: Floats) -> float:
    """The standard deviation of labels [n, m] around the mean of their query: the unit in which labels are compared.

    One unit for all queries, because a query whose labels hardly differ says little; in units of its own it would say
    as much as every other.
    """
    centred = labels - np.nanmean(labels, axis=1, keepdims=True)
    return float(np.sqrt(np.nanmean(centred**2)))


def label_targets(labels: Floats, *, spread: float, sharpness: float) -> Floats:
    """The distributions [n, m] that labels [n, m] stand for: softmax of the labels in units of `spread`."""
    logits = np.where(np.isnan(labels), -np.inf, labels) * (sharpness / spread)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(data: LabelledQueries, targets: Floats, scale: float, matrix: Floats) -> tuple[float, float, Floats]:
    """The mean cross-entropy of targets [n, m] and the softmax of the logits t p . q + p^T W q, and its gradient.

    Args:
        data: the queries.
        targets: a distribution over each query's candidates.
        scale: t.
        matrix: W [d, d].

    Returns:
        the loss, its derivative by t, and its gradient by W [d, d].
    """
    count, dimension = data.queries.shape
    loss, by_scale = 0.0, 0.0
    by_matrix = np.zeros((dimension, dimension))
    for start in range(0, count, BLOCK):
        rows = slice(start, start + BLOCK)
        queries, mask = data.queries[rows], data.candidates[rows] >= 0
        vectors = data.passages[data.candidates[rows]]  # [b, m, d]; row -1 is masked
        moved = (scale * queries + queries @ matrix.T.astype(queries.dtype)).astype(queries.dtype)
        logits = np.where(mask, np.matmul(vectors, moved[:, :, None])[:, :, 0], -np.inf).astype(np.float64)
        others = np.where(data.is_labelled(rows), -np.inf, moved @ data.background_vectors.T)
        highest = np.maximum(logits.max(axis=1), others.max(axis=1, initial=-np.inf))[:, None]
        logits, others = logits - highest, np.exp(others - highest)
        powers = np.exp(logits)
        total = powers.sum(axis=1, keepdims=True) + others.sum(axis=1, keepdims=True)
        loss += float((np.log(total[:, 0]) - (targets[rows] * np.where(mask, logits, 0.0)).sum(axis=1)).sum())
        residuals = (powers / total - targets[rows]).astype(queries.dtype)
        gradients = np.matmul(residuals[:, None, :], vectors)[:, 0, :]  # [b, d], by the moved query
        gradients += (others / total).astype(queries.dtype) @ data.background_vectors
        by_scale += float((gradients * queries).sum(dtype=np.float64))
        by_matrix += gradients.T @ queries
    return loss / count, by_scale / count, by_matrix / count


def fit_matrices(data: LabelledQueries, targets: Floats, ridges: Sequence[float]) -> list[Floats]:
    """The matrices M [d, d] of the corrections q + M q, one for each ridge, which must become weaker.

    Each search starts from the result of the stronger ridge before it. M does not depend on the lengths of vectors: it
    stays the same if all queries, or all passages and the background, are multiplied by a number.
    """
    from scipy.optimize import minimize

    # Both units go to the queries, which are fewer: t and W see no more than the products of queries and passages.
    unit = _mean_length(data.queries) * _mean_length(data.passages, data.background_vectors)
    data = replace(data, queries=data.queries / unit)
    dimension = data.queries.shape[1]
    # t is searched in units of START, so that one step of the search suits t as well as W.
    values = np.concatenate([[1.0], np.zeros(dimension * dimension)])
    matrices = []
    for ridge in ridges:

        def objective(values: Floats, ridge: float = ridge) -> tuple[float, Floats]:
            matrix = values[1:].reshape(dimension, dimension)
            loss, by_scale, by_matrix = cross_entropy(data, targets, START * values[0], matrix)
            gradient = np.concatenate([[START * by_scale], (by_matrix + ridge * matrix).ravel()])
            return loss + ridge / 2 * float((matrix**2).sum()), gradient

        bounds = [(_LEAST_SCALE, None)] + [(None, None)] * (dimension * dimension)
        options = {"maxiter": MOST_STEPS, "ftol": LEAST_STEP}
        values = minimize(objective, values, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        matrices.append(values[1:].reshape(dimension, dimension) / (START * values[0]))
    return matrices


def _mean_length(*vectors: Floats) -> float:
    """The root mean square length of vectors, in parts [n, d]; 1 where all are 0."""
    squares = sum(float(np.einsum("nd,nd->n", part, part).sum(dtype=np.float64)) for part in vectors)
    return float(np.sqrt(squares / max(sum(map(len, vectors)), 1))) or 1.0


def low_rank(matrix: Floats, rank: int) -> tuple[Floats, Floats]:
    """The best U [d, r] and V [d, r] with U V^T near a matrix [d, d]: its largest singular values."""
    left, values, right = np.linalg.svd(matrix)
    roots = np.sqrt(values[:rank])
    return left[:, :rank] * roots, right[:rank].T * roots
