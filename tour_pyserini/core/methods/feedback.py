"""Pseudo-relevance feedback without a re-ranker, as Pyserini has it: Rocchio (Eq. 6) and average."""

from dataclasses import dataclass
from types import MappingProxyType

from tour_pyserini.core.candidates import Candidates, Flags, Floats, Ids
from tour_pyserini.core.methods.method import Method, first_candidates, mean_of, uniform
from tour_pyserini.core.settings import AT_LEAST_1, Settings, setting

_RERANKED = MappingProxyType({"iterations": 1, "depth": 30, "calibrate": "always"})


@dataclass(frozen=True, kw_only=True)
class PositivesSettings(Settings):
    """How many of the first candidates count as relevant."""

    positives: int = setting(3, "how many of the first candidates count as relevant (k')", rule=AT_LEAST_1)


@dataclass(frozen=True, kw_only=True)
class RocchioSettings(PositivesSettings):
    """Rocchio's three weights."""

    rocchio_alpha: float = setting(0.9, "Rocchio: weight of the query")
    rocchio_beta: float = setting(0.1, "Rocchio: weight of the mean of the first k' candidates")
    rocchio_gamma: float = setting(0.1, "Rocchio: weight of the mean of the other candidates")


class Rocchio(Method):
    """alpha q + beta mean(first k') - gamma mean(the other candidates). No re-ranker is used."""

    Settings = RocchioSettings
    needs_labels = False
    shared_defaults = MappingProxyType({"iterations": 1})

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the first k'."""
        return uniform(self._positives(candidates))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One round of feedback; no schedule, no momentum."""
        positives = self._positives(candidates)
        return (
            self.settings.rocchio_alpha * query
            + self.settings.rocchio_beta * mean_of(candidates.vectors, positives)
            - self.settings.rocchio_gamma * mean_of(candidates.vectors, candidates.mask & ~positives)
        )

    def _positives(self, candidates: Candidates) -> Flags:
        return first_candidates(candidates, self.settings.positives)


class Average(Method):
    """The mean of the query and all its candidates. No re-ranker is used."""

    needs_labels = False
    shared_defaults = MappingProxyType({"iterations": 1, "depth": 3})

    def target(self, candidates: Candidates) -> Floats:
        """Uniform over the candidates that are averaged."""
        return uniform(self._members(candidates))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """One round of feedback."""
        members = self._members(candidates)
        count = members.sum(axis=-1, keepdims=True).astype(query.dtype)
        return (query + candidates.vectors.sum(axis=1, where=members[..., None])) / (count + 1)

    def _members(self, candidates: Candidates) -> Flags:
        return candidates.mask


class _RerankedAtTheEnd(Method):
    """Feedback without labels; then the last retrieval is re-ranked."""

    needs_labels = True
    shared_defaults = _RERANKED

    def labels_round(self, *, last: bool) -> bool:
        """Only the last round."""
        return last


class RocchioRerank(_RerankedAtTheEnd, Rocchio):
    """Rocchio's feedback, and then the last retrieval re-ranked."""


class AverageRerank(_RerankedAtTheEnd, Average):
    """Average feedback from the first k' candidates, and then the last retrieval re-ranked."""

    Settings = PositivesSettings

    def _members(self, candidates: Candidates) -> Flags:
        return first_candidates(candidates, self.settings.positives)
