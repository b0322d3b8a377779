"""The labels of a run as one purse: how many each query gets, decided over the whole run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Flags, Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.purse import Grant, Purse, Ration, share_out
from tour_pyserini.errors import TourError

Labels = dict[tuple[str, int], float]
"""Labels by a query's text and the position of a passage in the index."""

Explore = Callable[[list[Any], list[str], Grant, Labels], None]
"""Runs the loop for some queries and their ids, with labels as they are granted; new labels are added to the others."""


class SharedLabels(NamedTuple):
    """What each query of a run gets.

    Attributes:
        budgets: most labels of each query, by its id.
        labels: all labels that were bought to find that out; no other is needed.
    """

    budgets: Mapping[str, int]
    labels: Labels

    def ration(self, q_ids: Sequence[str]) -> Ration:
        """Grants these queries what they get."""
        return Ration(np.array([self.budgets[q_id] for q_id in q_ids], dtype=np.int64))


def share_labels(
    queries: Sequence[Any], q_ids: Sequence[str], config: TourConfig, explore: Explore, *, batch_size: int
) -> SharedLabels:
    """Share `mean_budget` labels per query among the n queries of a run; see `share_out`.

    A query's loop with b labels begins as its loop with fewer does, and does not depend on other queries. So budgets
    are found by running the loop with small ones first and then, for some queries, with larger ones: labels that were
    bought are kept, and only searches are repeated.

    Args:
        queries: n texts or dicts.
        q_ids: their ids.
        config: the method and its settings.
        explore: runs the loop.
        batch_size: queries that advance together.
    """
    labels: Labels = {}

    def explored(rows: Ids, budgets: Ids) -> Ration:
        whole = Ration(budgets)
        for start in range(0, len(rows), batch_size):
            part = slice(start, start + batch_size)
            ration = Ration(budgets[part])
            some = rows[part].tolist()
            explore([queries[row] for row in some], [q_ids[row] for row in some], ration, labels)
            whole.spent[part], whole.next_gain[part] = ration.spent, ration.next_gain
        return whole

    budgets = share_out(len(queries), mean=config.mean_budget, depth=config.depth, explore=explored)
    budgets = np.minimum(budgets, config.most_labels)
    return SharedLabels(dict(zip(q_ids, budgets.tolist(), strict=True)), labels)


def lone_grant(config: TourConfig) -> Grant:
    """Grants a query that shares its labels with no other what `share_labels` would, without exploring it first."""
    spent = budget = 0

    def grant(rows: Ids, gains: Floats, labels: Ids) -> Flags:
        nonlocal spent, budget
        if not len(rows):  # the query wants no labels
            return np.zeros(0, dtype=bool)
        wanted = int(labels[0])
        if spent + wanted > budget and gains[0] > 0 and spent + config.depth <= config.mean_budget:
            budget = spent + config.depth
        granted = spent + wanted <= budget
        spent += wanted if granted else 0
        return np.array([granted])

    return grant


def remembering(labels: Labels, score: Callable[[list[str], Ids], Floats]) -> Callable[[list[str], Ids], Floats]:
    """A function that scores m pairs, texts of queries [m] and positions [m]; what is known is not scored again."""

    def scored(queries: list[str], ids: Ids) -> Floats:
        pairs = list(zip(queries, ids.tolist(), strict=True))
        if fresh := [pair for pair in dict.fromkeys(pairs) if pair not in labels]:
            scores = score([query for query, _ in fresh], np.array([id_ for _, id_ in fresh], dtype=np.int64))
            labels.update(zip(fresh, scores.tolist(), strict=True))
        return np.array([labels[pair] for pair in pairs])

    return scored


def check_purse(purse: Any, config: TourConfig) -> None:
    """Refuse a purse that does not fit the settings."""
    if not isinstance(purse, Purse):
        raise TourError(f"purse is a Purse, not {type(purse).__name__}: Purse(20) has 20 labels per query.")
    if not config.method_class.estimates_gain:
        raise TourError(f"the method {config.method} cannot tell what labels gain: it has no use for a purse.")
    if config.mean_budget:
        raise TourError("mean_budget and purse are two ways to share labels; give one of them.")
    if purse.mean < config.depth:
        raise TourError(f"a purse of {purse.mean} labels per query does not pay for the first {config.depth} of each.")
