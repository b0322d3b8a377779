"""Vectors in two dimensions: along the way a query went, and across it."""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats


class Projection(NamedTuple):
    """Places [n, 2] of queries and of candidates."""

    queries: Floats
    candidates: Floats


def projected(queries: Floats, candidates: Floats) -> Projection:
    """Directions of the query at each step [t, d] and of candidates [n, d], seen from the first query.

    The first axis is the way from the first query to the last, so that what lies to the right is what the query moved
    towards; the second is the direction, across the first, in which the candidates differ most. A query that did not
    move has the candidates' two main directions. All vectors are brought to unit length first.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    away = np.linalg.norm(moved[-1])
    if away > 1e-9:
        along = moved[-1] / away
        across = _main(others - np.outer(others @ along, along), count=1)
        axes = np.vstack([along, across])
    else:
        axes = _main(others - others.mean(axis=0), count=2)
    return Projection(moved @ axes.T, others @ axes.T)


def _main(vectors: Floats, *, count: int) -> Floats:
    """The main directions [count, d] of vectors [n, d]; zero where there are fewer."""
    directions = np.linalg.svd(vectors, full_matrices=False)[2][:count]
    # Either sign is right; the one with the largest component above 0 is always chosen.
    signs = np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1))
    found = np.where(signs == 0, 1, signs) * directions
    return np.vstack([found, np.zeros((count - len(found), vectors.shape[1]))])


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)
