"""Runs side by side: measures, costs, splits, and differences from a baseline."""

import logging
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.data.records import read_costs
from tour_pyserini.data.runs import read_qrels, read_run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer, UnjudgedCheck
from tour_pyserini.evaluation.paired_tests import TESTS, Outcomes, gains, holm, outcomes
from tour_pyserini.support.costs import Costs

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

log = logging.getLogger(__name__)


def compare(
    qrels: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]], measures: Sequence[str]
) -> list[MeasuredRun]:
    """Measure runs with ir-measures.

    Args:
        qrels: TREC or BEIR judgements.
        runs: TREC runs; the record beside a run gives its costs.
        measures: names that ir-measures understands, such as nDCG@10, R@100, Success@1.

    Returns:
        A row per run, in the order given. A judged query that a run does not answer counts as 0; a warning
        says how many there are. A run that answers none of them is refused.
    """
    judgements = read_qrels(qrels)
    return measured(Scorer(measures, judgements), runs, qrels=qrels, unjudged=UnjudgedCheck(judgements))


def measured(
    scorer: Scorer,
    runs: Sequence[str | os.PathLike[str]],
    *,
    qrels: str | os.PathLike[str] = "the judgements",
    unjudged: UnjudgedCheck | None = None,
) -> list[MeasuredRun]:
    """A row per run, in the order given; messages call the scorer's judgements `qrels`, and `unjudged` looks on."""
    rows = []
    for path, name in zip(map(Path, runs), _names(runs), strict=True):
        run = read_run(path)
        rows.append(measured_run(scorer, run, name=name, path=path, costs=read_costs(path), qrels=qrels))
        if unjudged is not None:
            unjudged.check(run, path)
    return rows


def measured_run(
    scorer: Scorer,
    run: Sequence["ScoredDoc"],
    *,
    name: str,
    path: Path,
    costs: Costs | None,
    qrels: str | os.PathLike[str] = "the judgements",
) -> MeasuredRun:
    """The row of a run that was read from `path`."""
    hit = {each.query_id for each in run}
    answered = np.array([query in hit for query in scorer.queries])
    _check_answered(answered, path, qrels)
    values = scorer.values(run)
    means = {measure: scorer.aggregate(measure, each) for measure, each in values.items()}
    return MeasuredRun(name, path, values, means, answered, costs)


def baseline_position(baseline: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]]) -> int:
    """Where the baseline stands among the runs, however its path is written."""
    places = [os.path.realpath(run) for run in runs]  # a loop of links is a place too
    for run, place in zip(runs, places, strict=True):
        if places.count(place) > 1:
            raise TourError(f"the run {run} is given twice; give each run once to compare with a baseline.")
    wanted = os.path.realpath(baseline)
    if wanted not in places:
        raise TourError(f"the baseline {baseline} is not among the runs; name one of {', '.join(map(str, runs))}.")
    if len(runs) == 1:
        raise TourError(f"the baseline {baseline} is the only run; give another run to compare with it.")
    return places.index(wanted)


def _check_answered(answered: np.ndarray, path: Path, qrels: str | os.PathLike[str]) -> None:
    if not answered.any():
        raise TourError(f"{path} and {qrels} have no query in common; give the judgements of the run's collection.")
    if not answered.all():
        count = f"{answered.sum()} of the {answered.size} judged queries"
        log.warning("%s has hits for %s; the others count as 0", path, count)


def _names(runs: Sequence[str | os.PathLike[str]]) -> list[str]:
    names = [Path(run).name for run in runs]
    return [name if names.count(name) == 1 else str(run) for name, run in zip(names, runs, strict=True)]


class BaselineComparison(NamedTuple):
    """One run against the baseline on one measure; `adjusted` is Holm's p over all comparisons made together."""

    run: str
    measure: str
    difference: float
    outcomes: Outcomes
    p: float
    adjusted: float


def compare_with_baseline(
    baseline: MeasuredRun, others: Sequence[MeasuredRun], *, test: str = "randomisation"
) -> list[BaselineComparison]:
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
        BaselineComparison(row.name, measure, row.means[measure] - baseline.means[measure], outcomes(each), p, adjusted)
        for (row, measure), each, p, adjusted in zip(pairs, gained, p_values, holm(p_values), strict=True)
    ]


NO_SPLIT = "(no split)"


class SplitRow(NamedTuple):
    """One run on one split: how many of the split's queries are judged, and the measures' means over them."""

    split: str
    run: str
    queries: int
    means: Mapping[str, float]


def by_split(
    scorer: Scorer | ScorerWithAnswers, rows: Sequence[MeasuredRun], splits: Mapping[str, Set[str]]
) -> list[SplitRow]:
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


def _means(scorer: Scorer | ScorerWithAnswers, row: MeasuredRun, kept: np.ndarray) -> dict[str, float]:
    return {measure: scorer.aggregate(measure, values[kept]) for measure, values in row.values.items()}
