"""What the loop asks of an update rule."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.labels import nucleus

if TYPE_CHECKING:
    from tour_pyserini.core.config import TourConfig


class Method(ABC):
    """An update rule q_{t+1} = g(q_t, C_{1:k}), and what it remembers of n queries from one update to the next.

    Attributes:
        labels: whether the rule, or the final list, needs the re-ranker's scores.
        updates: whether the query changes at all.
        keeps: whether the rule learns from everything labelled so far and buys labels for new candidates only; if not,
            it learns from the first k of the last retrieval.
    """

    labels: ClassVar[bool] = True
    updates: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def __init__(self, config: "TourConfig", queries: Floats) -> None:
        """Begin with the encoder's vectors [n, d]."""
        self.config = config
        self.start = queries

    def buys(self, *, last: bool) -> bool:
        """Whether this retrieval is labelled; a rule that keeps its labels has no use for those of the last one."""
        return self.labels and not (last and self.keeps)

    @abstractmethod
    def target(self, candidates: Candidates) -> Floats:
        """The distribution T, [a, k], that the rule moves the queries towards."""

    def settled(self, rows: Ids, offered: Hits) -> Flags:
        """[a] true where labels for what is offered are not expected to change the list: they are not bought."""
        return np.zeros(len(rows), dtype=bool)

    def agrees(self, candidates: Candidates) -> Flags:
        """[a] true where the first hit already agrees with the labels, so that the query may stay."""
        return np.zeros(len(candidates.ids), dtype=bool)

    def step_size(self, t: int) -> float | None:
        """The step of the update after the t-th retrieval, t = 0, 1, ...; None for a rule without steps."""
        return None

    @abstractmethod
    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The next vectors [a, d] of the queries in `rows` [a], whose vectors are `query` [a, d]."""

    def _first(self, candidates: Candidates) -> Flags:
        """The first k' candidates, [a, k]."""
        return candidates.mask & (np.arange(candidates.ids.shape[1]) < self.config.positives)

    def _nucleus(self, candidates: Candidates) -> Flags:
        return nucleus(candidates.scores, tau=self.config.tau, p=self.config.p)


def uniform(members: Flags) -> Floats:
    """The uniform distribution over each query's members, [n, k]; zero where there is none."""
    return members / np.maximum(members.sum(axis=-1, keepdims=True), 1)


def mean_of(vectors: Floats, members: Flags) -> Floats:
    """The mean of each query's member vectors, [n, d]; zero where there is none."""
    return np.einsum("nk,nkd->nd", uniform(members).astype(vectors.dtype), vectors)
