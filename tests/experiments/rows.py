"""Measured runs, by hand."""

from pathlib import Path

import numpy as np

from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.support.costs import Costs


def row(name, values, *, pairs=0, reused=0, seconds=None):
    """A run of four queries with these nDCG@10."""
    each = np.array(values, dtype=np.float64)
    costs = Costs(queries=4, pairs=pairs, reused=reused, seconds=seconds or {})
    means = {"nDCG@10": float(each.mean())}
    return MeasuredRun(name, Path(name), {"nDCG@10": each}, means, np.ones(4, dtype=bool), costs)
