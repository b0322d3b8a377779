"""A method defined outside the package, with settings of its own."""

import contextlib
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tour_pyserini.core import methods
from tour_pyserini.core.methods import Method, register_method
from tour_pyserini.core.settings import SHARE, Settings, setting


@dataclass(frozen=True, kw_only=True)
class HalfwaySettings(Settings):
    """How far the query moves, and to which candidate."""

    share: float = setting(0.5, "how much of the way the query moves", rule=SHARE)
    goal: str = setting("best", "the candidate that it moves to", choices=("best", "worst"))
    back: bool = setting(False, "move away instead")


class Halfway(Method):
    """Moves the query part of the way to the candidate with the highest, or lowest, label."""

    Settings = HalfwaySettings
    shared_defaults = MappingProxyType({"depth": 4, "iterations": 2})

    def target(self, candidates):
        labels = np.where(candidates.mask, candidates.labels, np.nan)
        goal = np.nanargmax(labels, axis=1) if self.settings.goal == "best" else np.nanargmin(labels, axis=1)
        return np.eye(labels.shape[1])[goal]

    def update(self, rows, query, candidates, target, t):
        goal = np.einsum("nk,nkd->nd", target, candidates.vectors)
        share = -self.settings.share if self.settings.back else self.settings.share
        return (query + share * (goal - query)).astype(query.dtype)


@contextlib.contextmanager
def registered(name, method):
    """Register a method, and forget it at the end."""
    register_method(name, method)
    try:
        yield
    finally:
        del methods._METHODS[name]
