"""Runs of the same questions, compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.setting import Topics
from tour_pyserini.evaluation.comparison import compare, compare_with_baseline

MEASURE = "nDCG@10"


class Quality(NamedTuple):
    """nDCG@10, the difference to the first run, and the p value of a paired randomisation test (None for the first)."""

    mean: float
    difference: float
    p: float | None


def qualities(topics: Topics, runs: Sequence[Path]) -> list[Quality]:
    """Every run against the first."""
    rows = compare(topics.qrels, runs, [MEASURE])
    return [
        Quality(rows[0].means[MEASURE], 0.0, None),
        *(
            Quality(row.means[MEASURE], one.difference, one.p)
            for row, one in zip(rows[1:], compare_with_baseline(rows[0], rows[1:]), strict=True)
        ),
    ]
