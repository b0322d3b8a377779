"""What the loop asks of a method (an update rule)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.settings import Settings

if TYPE_CHECKING:
    from tour_pyserini.core.corpus_view import CorpusView

NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class Method(ABC):
    """An update rule q_{t+1} = g(q_t, C_{1:k}), with what it remembers of n queries between updates.

    A subclass says which settings it reads and what it needs from the loop, and computes `target` and `update`.

    Attributes:
        version: raised by one whenever the same settings and labels begin to give another result. Experiments then
            make their runs again.
        Settings: the class of its own settings.
        shared_defaults: defaults of the settings that all methods share, where this method's differ.
        needs_labels: whether the rule, or the final list, needs labels.
        updates_query: whether the query vector changes at all.
        keeps_labels: true: the rule learns from everything labelled so far, and labels are bought for new candidates
            only. False: it learns from the first k candidates of the last retrieval.
        estimates_gain: whether it has `expected_gain`, by which the queries of a run share their labels.
        unused_with_signals: settings that change nothing where there is a further signal.
    """

    version: ClassVar[int] = 1
    Settings: ClassVar[type[Settings]] = Settings
    shared_defaults: ClassVar[Mapping[str, Any]] = NO_DEFAULTS
    needs_labels: ClassVar[bool] = True
    updates_query: ClassVar[bool] = True
    keeps_labels: ClassVar[bool] = False
    estimates_gain: ClassVar[bool] = False
    unused_with_signals: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: Any, queries: Floats, *, rounds: int) -> None:
        """Begin with the encoder's vectors.

        Args:
            settings: the method's own settings, an instance of its `Settings`.
            queries: [n, d] the encoder's vectors q_0.
            rounds: most updates of a query (T).
        """
        self.settings = settings
        self.start = queries
        self.rounds = rounds

    @classmethod
    def unused_settings(cls) -> set[str]:
        """The settings that all methods share and that change nothing for this one."""
        unused = set()
        if not cls.updates_query:
            unused |= {"iterations", "early_stopping", "final_list"}
        if not cls.needs_labels:
            unused |= {"budget", "score_weight", "early_stopping", "similarity_scale", "calibrate"}
            unused |= {"final_list", "aggregation"}
        if cls.keeps_labels:  # it ranks everything on the scale of labels
            unused |= {"final_list", "aggregation"}
        else:
            unused |= {"belief"}
        if not cls.estimates_gain:
            unused |= {"mean_budget"}
        return unused | ({"depth"} if not (cls.updates_query or cls.needs_labels) else set())

    @abstractmethod
    def target(self, candidates: Candidates) -> Floats:
        """The distribution T, [a, k], that the rule moves the queries towards."""

    @abstractmethod
    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The next vectors [a, d] of the queries in `rows` [a], whose vectors are `query` [a, d]."""

    @classmethod
    def least_hits(cls, settings: Any) -> int:
        """How many hits each retrieval must have for the rule, whatever a run asks for; 0 if it does not matter."""
        return 0

    def propose(self, rows: Ids, hits: Hits, view: "CorpusView") -> Hits:
        """What is offered for labels, best first, to the queries in `rows` [a]: by default their hits [a, m]."""
        return hits

    def labels_round(self, *, last: bool) -> bool:
        """Whether this round's candidates are labelled. Labels of the last round come too late for a new update."""
        return self.needs_labels and not (last and self.keeps_labels)

    def nothing_to_gain(self, rows: Ids, offered: Hits) -> Flags:
        """[a] true where labels of the offered candidates are not expected to change the list."""
        return np.zeros(len(rows), dtype=bool)

    def expected_gain(self, rows: Ids, offered: Hits) -> Floats:
        """[a] what labels of the offered candidates are expected to gain, of any unit that queries share; from 0."""
        raise NotImplementedError

    def agrees(self, candidates: Candidates) -> Flags:
        """[a] true where the first candidate already agrees with the labels, so that the query can stop."""
        return np.zeros(len(candidates.ids), dtype=bool)

    def step_size(self, t: int) -> float | None:
        """The step size of the update after retrieval t = 0, 1, ...; None for a rule without steps."""
        return None


def first_candidates(candidates: Candidates, count: int) -> Flags:
    """[a, k] true for the first `count` candidates of each query."""
    return candidates.mask & (np.arange(candidates.ids.shape[1]) < count)


def uniform(members: Flags) -> Floats:
    """The uniform distribution over each query's members, [n, k]; zero where there is none."""
    return members / np.maximum(members.sum(axis=-1, keepdims=True), 1)


def mean_of(vectors: Floats, members: Flags) -> Floats:
    """The mean of each query's member vectors, [n, d]; zero where there is none."""
    return np.einsum("nk,nkd->nd", uniform(members).astype(vectors.dtype), vectors)
