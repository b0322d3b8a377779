"""Runs side by side: measures, costs, means by split, and differences from a baseline."""

import logging
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.data.qrels import read_qrels
from tour_pyserini.data.records import read_costs
from tour_pyserini.data.runs import read_run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer, UnjudgedCheck
from tour_pyserini.evaluation.paired_tests import TESTS, Outcomes, gains, holm, outcomes
from tour_pyserini.support.costs import Costs

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

log = logging.getLogger(__name__)

NO_SPLIT = "(no split)"


def compare(
    qrels: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]], measures: Sequence[str]
) -> list[MeasuredRun]:
    """Measure runs with ir-measures.

    Args:
        qrels: TREC or BEIR judgements.
        runs: TREC runs; the record beside a run gives its costs.
        measures: names that ir-measures understands, such as nDCG@10, R@100, Success@1.

    Returns:
        The measured runs, in the order given. A judged query without hits counts as 0, and a warning
        gives their number. A run without hits for any judged query is refused.
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
    """Measure run files, in the order given.

    Args:
        scorer: computes the measures.
        runs: TREC runs; the record beside a run gives its costs.
        qrels: what messages call the scorer's judgements.
        unjudged: checks every run for unjudged hits, if given.
    """
    result = []
    for path, name in zip(map(Path, runs), _names(runs), strict=True):
        run = read_run(path)
        result.append(measured_run(scorer, run, name=name, path=path, costs=read_costs(path), qrels=qrels))
        if unjudged is not None:
            unjudged.check(run, path)
    return result


def measured_run(
    scorer: Scorer,
    run: Sequence["ScoredDoc"],
    *,
    name: str,
    path: Path,
    costs: Costs | None,
    qrels: str | os.PathLike[str] = "the judgements",
) -> MeasuredRun:
    """Measure a run that was read from `path`; messages call the scorer's judgements `qrels`."""
    with_hits = {hit.query_id for hit in run}
    answered = np.array([query in with_hits for query in scorer.queries])
    _check_answered(answered, path, qrels)
    values = scorer.values(run)
    means = {measure: scorer.aggregate(measure, by_query) for measure, by_query in values.items()}
    return MeasuredRun(name, path, values, means, answered, costs)


def _names(runs: Sequence[str | os.PathLike[str]]) -> list[str]:
    names = [Path(run).name for run in runs]
    return [name if names.count(name) == 1 else str(run) for name, run in zip(names, runs, strict=True)]


def _check_answered(answered: np.ndarray, path: Path, qrels: str | os.PathLike[str]) -> None:
    if not answered.any():
        raise TourError(f"{path} and {qrels} have no query in common; give the judgements of the run's collection.")
    if not answered.all():
        count = f"{answered.sum()} of the {answered.size} judged queries"
        log.warning("%s has hits for %s; the others count as 0", path, count)


def baseline_position(baseline: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]]) -> int:
    """The baseline's position among the runs; paths that lead to the same file are equal."""
    paths = [os.path.realpath(run) for run in runs]  # unlike Path.resolve, it accepts a loop of links
    for run, path in zip(runs, paths, strict=True):
        if paths.count(path) > 1:
            raise TourError(f"the run {run} is given twice; give each run once to compare with a baseline.")
    wanted = os.path.realpath(baseline)
    if wanted not in paths:
        raise TourError(f"the baseline {baseline} is not among the runs; name one of {', '.join(map(str, runs))}.")
    if len(runs) == 1:
        raise TourError(f"the baseline {baseline} is the only run; give another run to compare with it.")
    return paths.index(wanted)


class BaselineComparison(NamedTuple):
    """One run compared with the baseline on one measure.

    Attributes:
        run: the run's name.
        measure: the measure's name.
        difference: the run's mean minus the baseline's.
        outcomes: queries won, tied and lost.
        p: the p value of the paired test.
        adjusted: Holm's p value over all comparisons made together.
    """

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
        A comparison per run and measure, ordered by run, then by measure.
    """
    pairs = [(run, measure) for run in others for measure in baseline.values]
    differences = [gains(run.values[measure], baseline.values[measure]) for run, measure in pairs]
    p_values = [TESTS[test](gained) for gained in differences]
    return [
        BaselineComparison(
            run.name, measure, run.means[measure] - baseline.means[measure], outcomes(gained), p, adjusted
        )
        for (run, measure), gained, p, adjusted in zip(pairs, differences, p_values, holm(p_values), strict=True)
    ]


class SplitRow(NamedTuple):
    """One run on one split: the number of the split's judged queries, and the measures' means over them."""

    split: str
    run: str
    queries: int
    means: Mapping[str, float]


def by_split(
    scorer: Scorer | ScorerWithAnswers, runs: Sequence[MeasuredRun], splits: Mapping[str, Set[str]]
) -> list[SplitRow]:
    """A row per split and run, ordered by split; judged queries without a split come last, if there are any."""
    members = {name: np.array([query in ids for query in scorer.queries]) for name, ids in splits.items()}
    rest = ~np.any(list(members.values()), axis=0)
    if rest.all():
        raise TourError(
            "none of the queries in the splits is judged; check that splits and judgements belong together."
        )
    if rest.any():
        members[NO_SPLIT] = rest
    return [
        SplitRow(split, run.name, int(kept.sum()), _means(scorer, run, kept))
        for split, kept in members.items()
        for run in runs
    ]


def _means(scorer: Scorer | ScorerWithAnswers, run: MeasuredRun, kept: np.ndarray) -> dict[str, float]:
    return {measure: scorer.aggregate(measure, values[kept]) for measure, values in run.values.items()}
