"""Every run against a baseline: differences, outcomes and whether chance explains them."""

from collections.abc import Sequence
from typing import NamedTuple

from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.gains import Outcomes, gains, outcomes
from tour_pyserini.evaluation.holm import holm
from tour_pyserini.evaluation.significance import TESTS


class Against(NamedTuple):
    """One run against the baseline on one measure; `adjusted` is Holm's p over all comparisons made together."""

    run: str
    measure: str
    difference: float
    outcomes: Outcomes
    p: float
    adjusted: float


def against(baseline: Row, others: Sequence[Row], *, test: str = "randomisation") -> list[Against]:
    """Compare runs with a baseline on every measure.

    Args:
        baseline: the run to compare with.
        others: the other runs, measured on the same queries.
        test: `randomisation` or `t`.

    Returns:
        A comparison per run and measure, runs first.
    """
    pairs = [(row, measure) for row in others for measure in baseline.values]
    gained = [gains(row.values[measure], baseline.values[measure]) for row, measure in pairs]
    p_values = [TESTS[test](each) for each in gained]
    return [
        Against(row.name, measure, row.means[measure] - baseline.means[measure], outcomes(each), p, adjusted)
        for (row, measure), each, p, adjusted in zip(pairs, gained, p_values, holm(p_values), strict=True)
    ]
