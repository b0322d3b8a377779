"""Labels that several queries share: they go where they are expected to gain most."""

import math
import threading
from collections.abc import Callable

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats, Ids
from tour_pyserini.errors import TourError

Grant = Callable[[Ids, Floats, Ids], Flags]
"""Which queries may buy labels now, [a]: for their rows [a], what one label is expected to gain [a], infinite where a
query has none yet, and how many labels each asks for [a]."""

STEP = 0.05
"""How fast the price of a purse follows the demand, as a share of itself for each query's mean of labels."""
_LOWEST, _HIGHEST = math.log(1e-4), math.log(1e2)


class Ration:
    """Grants each of n queries its own number of labels, and notes what the next ones would gain.

    Attributes:
        spent: [n] labels granted.
        next_gain: [n] what a further label was expected to gain where it was refused; 0 where none was asked for.
    """

    def __init__(self, budgets: Ids) -> None:
        """Grant at most `budgets` [n] labels."""
        self._budgets = budgets
        self.spent = np.zeros(len(budgets), dtype=np.int64)
        self.next_gain = np.zeros(len(budgets))

    def __call__(self, rows: Ids, gains: Floats, labels: Ids) -> Flags:
        """A `Grant`: all that a query asks for, or nothing."""
        granted = self.spent[rows] + labels <= self._budgets[rows]
        self.spent[rows] += np.where(granted, labels, 0)
        self.next_gain[rows] = np.where(granted, 0, gains)
        return granted


def share_out(queries: int, *, mean: int, depth: int, explore: Callable[[Ids, Ids], Ration]) -> Ids:
    """How many labels each query of a run gets, [n], so that they are `mean` on average at most.

    Each query gets its first round. Then the queries whose next round has the largest expected gain of a label get
    it, as many as half of what is left pays for; these are estimated again; and so on until nothing is left. Equal
    gains: the earlier query. So the result depends on the queries and their order alone.

    Args:
        queries: n.
        mean: labels of a query on average, at least `depth`.
        depth: labels of a round.
        explore: what queries, by their rows [a], do with budgets [a].
    """
    rows, budgets = np.arange(queries), np.full(queries, depth, dtype=np.int64)
    spent, gains = np.zeros(queries, dtype=np.int64), np.zeros(queries)
    while len(rows):
        budgets[rows] = spent[rows] + depth
        explored = explore(rows, budgets[rows])
        spent[rows], gains[rows] = explored.spent, explored.next_gain
        affordable = (mean * queries - int(spent.sum())) // depth
        wanting = np.flatnonzero(gains > 0)
        best = wanting[np.argsort(-gains[wanting], kind="stable")]
        rows = np.sort(best[: -(-affordable // 2)])
    return budgets


class Purse:
    """Labels of queries that arrive one after another, as in a service: a running mean.

    The mean of the labels per query is never above `mean`, at any time. Labels have a price, in units of expected gain:
    it rises while more are asked for at this price than the mean allows, and falls while fewer are. So labels that easy
    queries save go to queries that gain more from them. The labels of a query that has had none yet are kept for it:
    each gets its first ones, if they are `mean` at most. What a query gets depends on the queries before it: for runs
    that can be repeated, use the setting `mean_budget`. One purse may serve several threads.

    Attributes:
        mean: labels per query.
        queries: queries that have arrived.
        labels: labels that were taken.

    Example:
        purse = Purse(20)
        searcher = TourSearcher(faiss_searcher, "default", "corpus.jsonl", purse=purse)
        searcher.search("do statins prevent stroke")
        purse.labels / purse.queries
    """

    def __init__(self, mean: float) -> None:
        """Allow `mean` labels per query."""
        if isinstance(mean, bool) or not isinstance(mean, int | float) or not 0 < mean < math.inf:
            raise TourError(f"the mean of a purse is a number of labels above 0, not {mean!r}.")
        self.mean = mean
        self.queries = self.labels = 0
        self._begun = 0  # queries that have had their first labels
        self._log_price = _LOWEST
        self._lock = threading.Lock()

    @property
    def price(self) -> float:
        """The expected gain of a label below which none is given now."""
        return math.exp(self._log_price)

    def arrive(self, queries: int = 1) -> None:
        """Count queries that arrive; each brings `mean` labels, for others when it has had its first ones."""
        with self._lock:
            self.queries += queries
            self._move_price(-queries)

    def take(self, expected_gain: float, labels: int = 1) -> bool:
        """Take labels for a query that has arrived; False: not worth the price, or there are too few.

        Args:
            expected_gain: what one of them is expected to gain; infinite for the first labels of a query.
            labels: how many.
        """
        with self._lock:
            if not expected_gain >= self.price:
                return False
            # Demand moves the price, also where it cannot be met: else a purse that is empty would stay cheap.
            self._move_price(labels / self.mean)
            begun = min(self._begun + (expected_gain == math.inf), self.queries)
            if self.labels + labels > self.mean * begun:
                return False
            self.labels, self._begun = self.labels + labels, begun
            return True

    def _move_price(self, queries: float) -> None:
        self._log_price = min(max(self._log_price + STEP * queries, _LOWEST), _HIGHEST)

    def grant(self, rows: Ids, gains: Floats, labels: Ids) -> Flags:
        """A `Grant`: the queries take their labels in their order."""
        taken = [self.take(gain, count) for gain, count in zip(gains.tolist(), labels.tolist(), strict=True)]
        return np.array(taken, dtype=bool)
