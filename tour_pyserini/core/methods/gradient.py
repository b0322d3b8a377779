"""Gradient descent on the query vector, shared by every rule with a target distribution."""

from typing import TYPE_CHECKING

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Ids
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.methods.base import Method

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig


def gradient(candidates: Candidates, target: Floats) -> Floats:
    """The loss's gradient with respect to the query: C^T (P - T), [n, d], with P = softmax(z).

    Similarities may carry a scale s, z = s C q. That reads as both encoders multiplied by sqrt(s): in the scaled
    space the gradient is sqrt(s) C^T (P - T), and dividing by sqrt(s) to return to q leaves no factor.
    """
    weights = (softmax(candidates.similarities) - target).astype(candidates.vectors.dtype)
    return np.einsum("nk,nkd->nd", weights, candidates.vectors)


class GradientMethod(Method):
    """SGD as PyTorch's: g += decay q;  v = momentum v + g, starting at the first g;  q -= eta_t v."""

    def __init__(self, config: "TourConfig", queries: Floats) -> None:
        super().__init__(config, queries)
        self._velocity = np.zeros_like(queries)

    def step_size(self, t: int) -> float:
        """Linear schedule: eta (T - t) / T."""
        return self.config.learning_rate * (self.config.iterations - t) / self.config.iterations

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One step of gradient descent."""
        config = self.config
        descent = _clipped(gradient(candidates, target), config.gradient_clip) + config.weight_decay * query
        self._velocity[rows] = config.momentum * self._velocity[rows] + descent
        return query - self.step_size(t) * self._velocity[rows]


def _clipped(vectors: Floats, largest: float) -> Floats:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors * np.minimum(1, largest / np.maximum(norms, np.finfo(vectors.dtype).tiny)).astype(vectors.dtype)
