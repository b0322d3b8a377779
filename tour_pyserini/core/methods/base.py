"""What the loop asks of an update rule."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats
from tour_pyserini.core.labels import nucleus

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig


class Method(ABC):
    """An update rule q_{t+1} = g(q_t, C_{1:k}).

    Attributes:
        labels: whether the rule, or the final list, needs the re-ranker's scores.
        updates: whether the query changes at all.
    """

    labels: ClassVar[bool] = True
    updates: ClassVar[bool] = True

    def __init__(self, config: "TourConfig") -> None:
        self.config = config

    @abstractmethod
    def target(self, candidates: Candidates) -> Floats:
        """The distribution T, [n, k], that the rule moves the query towards."""

    def agrees(self, candidates: Candidates) -> Flags:
        """[n] true where the first hit already agrees with the labels, so that the query may stay."""
        return np.zeros(len(candidates.ids), dtype=bool)

    def step_size(self, t: int) -> float | None:
        """The step of the update after the t-th retrieval, t = 0, 1, ...; None for a rule without steps."""
        return None

    @abstractmethod
    def update(
        self, query: Floats, velocity: Floats, candidates: Candidates, target: Floats, t: int
    ) -> tuple[Floats, Floats]:
        """The next query and velocity, each [n, d]. Rules without momentum give the velocity back as it came."""

    def _nucleus(self, candidates: Candidates) -> Flags:
        return nucleus(candidates.scores, tau=self.config.tau, p=self.config.p)


def uniform(members: Flags) -> Floats:
    """The uniform distribution over each query's members, [n, k]; zero where there is none."""
    return members / np.maximum(members.sum(axis=-1, keepdims=True), 1)


def mean_of(vectors: Floats, members: Flags) -> Floats:
    """The mean of each query's member vectors, [n, d]; zero where there is none."""
    return np.einsum("nk,nkd->nd", uniform(members).astype(vectors.dtype), vectors)
