"""Runs side by side: their measures and what they cost."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.costs import Costs
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.files import read_qrels, read_run
from tour_pyserini.record import read_costs


class Row(NamedTuple):
    """One run: its name, its measures' means over the judged queries, and its costs if they were recorded."""

    name: str
    means: Mapping[str, float]
    costs: Costs | None


def compare(
    qrels: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]], measures: Sequence[str]
) -> list[Row]:
    """Measure runs with ir-measures.

    Args:
        qrels: TREC or BEIR judgements.
        runs: TREC runs; the record beside a run gives its costs.
        measures: names that ir-measures understands, such as nDCG@10, R@100, Success@1.

    Returns:
        A row per run, in the order given. A judged query that a run does not answer counts as 0.
    """
    import ir_measures

    try:
        parsed = [ir_measures.parse_measure(measure) for measure in measures]
    except (NameError, ValueError, SyntaxError) as error:
        raise TourError(f"ir-measures does not know one of the measures {' '.join(measures)}: {error}.") from error
    evaluator = ir_measures.evaluator(parsed, read_qrels(qrels))
    rows = []
    for run in runs:
        means = evaluator.calc_aggregate(read_run(run))
        rows.append(Row(Path(run).name, {str(measure): means[measure] for measure in parsed}, read_costs(run)))
    return rows
