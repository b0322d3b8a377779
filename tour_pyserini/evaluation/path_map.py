"""The map of a query path: query vectors and candidates in two dimensions."""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats


class Projection(NamedTuple):
    """Coordinates of the query vectors [t, 2] and of the candidates [n, 2] on the map."""

    queries: Floats
    candidates: Floats


def projected(queries: Floats, candidates: Floats) -> Projection:
    """Project the query vectors of each round [t, d] and the candidates [n, d] to two dimensions.

    All vectors are scaled to unit length first; the first query vector is the origin. The first axis points from the
    first query vector to the last, so that the query moves to the right. The second axis is the direction, orthogonal
    to the first, in which the candidates differ most from each other. If the query did not move, the axes are the
    candidates' two main directions.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    centred = others - others.mean(axis=0) if len(others) else others
    away = np.linalg.norm(moved[-1])
    if away > 1e-6:  # less is rounding: single-precision vectors
        along = moved[-1] / away
        across = _main_directions(centred - np.outer(centred @ along, along), count=1)
        axes = np.vstack([along, across])
    else:
        axes = _main_directions(centred, count=2)
    return Projection(moved @ axes.T, others @ axes.T)


def _main_directions(vectors: Floats, *, count: int) -> Floats:
    """The first principal directions [count, d] of vectors [n, d]; missing ones are 0."""
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    # Where vectors do not differ, directions are arbitrary, and not orthogonal to what was taken out of the vectors.
    directions = directions[lengths > 1e-9][:count]
    # Either sign is right; the one that makes the largest component positive is always chosen.
    signs = np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1))
    directions = np.where(signs == 0, 1, signs) * directions
    return np.vstack([directions, np.zeros((count - len(directions), vectors.shape[1]))])


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)
