"""Measures of each run on each split of the queries."""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.evaluation.with_answers import ScorerWithAnswers

NO_SPLIT = "(no split)"


class SplitRow(NamedTuple):
    """One run on one split: how many of the split's queries are judged, and the measures' means over them."""

    split: str
    run: str
    queries: int
    means: Mapping[str, float]


def by_split(scorer: Scorer | ScorerWithAnswers, rows: Sequence[Row], splits: Mapping[str, Set[str]]) -> list[SplitRow]:
    """A row per split and run, splits first; judged queries without a split come last, if there are any."""
    chosen = {name: np.array([query in members for query in scorer.queries]) for name, members in splits.items()}
    rest = ~np.any(list(chosen.values()), axis=0)
    if rest.all():
        raise TourError(
            "none of the queries in the splits is judged; check that splits and judgements belong together."
        )
    if rest.any():
        chosen[NO_SPLIT] = rest
    return [
        SplitRow(split, row.name, int(kept.sum()), _means(scorer, row, kept))
        for split, kept in chosen.items()
        for row in rows
    ]


def _means(scorer: Scorer | ScorerWithAnswers, row: Row, kept: np.ndarray) -> dict[str, float]:
    return {measure: scorer.aggregate(measure, values[kept]) for measure, values in row.values.items()}
