"""The anchored query: what labels say about a query, given what its encoder said.

The re-ranker's score is taken as linear in a passage's vector, s = b + w c + noise, with a prior from the encoder,
w ~ N(a q_0, v I), and a free intercept b. The posterior mean of w solves

    min_{w, b}  sum_i (s_i - b - w c_i)^2  +  kappa |w - a q_0|^2,        kappa = noise variance / v,

in closed form in the span of the labelled candidates: w = a q_0 + C^T alpha / kappa, a system as large as there are
labels. Further first-stage signals add a e_i to each w c_i (`core/fusion.py`).
"""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats


class Posterior(NamedTuple):
    """What n queries' labels say.

    Attributes:
        queries: [n, d] w / a, on the scale of the encoder's vectors: the same ranking as w.
        intercepts: [n] b, so that b + a (query . c) is the score to expect of a passage.
        spreads: [n] standard deviation of a score around what the other labels predict (leave-one-out).
        prior_spreads: [n] the same where the query stays at q_0.
    """

    queries: Floats
    intercepts: Floats
    spreads: Floats
    prior_spreads: Floats


def posterior(
    start: Floats,
    vectors: Floats,
    labels: Floats,
    mask: Flags,
    *,
    slope: Floats | float,
    anchor: Floats | float,
    offsets: Floats | float = 0.0,
) -> Posterior:
    """The anchored queries, for n queries at once.

    Args:
        start: [n, d] the encoder's vectors q_0.
        vectors: [n, m, d] labelled candidates.
        labels: [n, m] their labels.
        mask: [n, m] true where there is a candidate.
        slope: [n], or one number for all: a, what a unit of similarity is worth in label; 0 for a prior that knows
            nothing of the encoder.
        anchor: [n], or one number for all: kappa in units of the candidates' mean squared distance from their centre,
            so that it means the same for any encoder. Infinity keeps the query where it is.
        offsets: [n, m], or one number for all, what further signals add to the similarities: part of the prior mean.
    """
    slopes = np.broadcast_to(np.asarray(slope, dtype=np.float64), len(start))[:, None]
    count = mask.sum(axis=1)
    there = mask.astype(np.float64)
    vectors = np.where(mask[..., None], vectors, 0).astype(np.float64)
    prior = slopes * (np.einsum("nmd,nd->nm", vectors, start) + offsets)
    residuals = np.where(mask, np.where(mask, labels, 0) - prior, 0)
    kappa = stiffness(vectors, mask, anchor)
    gram = np.einsum("nid,njd->nij", vectors, vectors) / kappa[:, None, None]
    # In units of the noise: (C C^T / kappa + I) x = r. Absent candidates have rows of the identity and stay apart.
    inverse = np.linalg.inv(gram + np.eye(mask.shape[1]))
    weights = np.einsum("nij,nj->ni", inverse, there)
    total = np.maximum(weights.sum(axis=1, where=mask), np.finfo(np.float64).tiny)
    # The intercept, projected out of the system, is its generalised least squares estimate.
    projected = inverse - weights[:, :, None] * weights[:, None, :] / total[:, None, None]
    alpha = np.where(mask, np.einsum("nij,nj->ni", projected, residuals), 0)
    moved = np.einsum("nmd,nm->nd", vectors, alpha) / kappa[:, None]
    return Posterior(
        (slopes * start + moved) / np.where(slopes > 0, slopes, 1.0),
        np.einsum("ni,ni->n", weights * there, residuals) / total,
        _spread(alpha / np.where(mask, np.einsum("nii->ni", projected), 1).clip(min=1e-12), mask, count),
        _spread(_left_out(residuals, mask, count), mask, count),
    )


def stiffness(vectors: Floats, mask: Flags, anchor: Floats | float) -> Floats:
    """Kappa [n]: the anchor times the candidates' mean squared distance from their centre."""
    count = np.maximum(mask.sum(axis=1), 1)
    centre = vectors.sum(axis=1, keepdims=True, where=mask[..., None]) / count[:, None, None]
    distances = ((vectors - centre) ** 2).sum(axis=2).sum(axis=1, where=mask) / count
    # Candidates that are all alike have no distances, but a length.
    lengths = (vectors**2).sum(axis=2).sum(axis=1, where=mask) / count
    return anchor * np.maximum(distances, 1e-3 * lengths + 1e-12)


def _left_out(residuals: Floats, mask: Flags, count: Floats) -> Floats:
    """Distances from the mean of the others."""
    mean = residuals.sum(axis=1) / np.maximum(count, 1)
    return np.where(mask, residuals - mean[:, None], 0) * (count / np.maximum(count - 1, 1))[:, None]


def _spread(errors: Floats, mask: Flags, count: Floats) -> Floats:
    return np.sqrt((errors**2).sum(axis=1, where=mask) / np.maximum(count, 1))
