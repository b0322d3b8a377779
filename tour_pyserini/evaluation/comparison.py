"""Runs side by side: their measures and what they cost."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.costs import Costs
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.files import read_qrels, read_run
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.evaluation.unjudged import Unjudged
from tour_pyserini.record import read_costs

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """One run.

    Attributes:
        name: the file's name; its path where two runs have the same name.
        path: the run file.
        values: each measure's value for every judged query, float64 [queries].
        means: the measures' means over the judged queries.
        answered: for every judged query, whether the run has hits for it, bool [queries].
        costs: what the run cost, if it was recorded.
    """

    name: str
    path: Path
    values: Mapping[str, np.ndarray]
    means: Mapping[str, float]
    answered: np.ndarray
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
        A row per run, in the order given. A judged query that a run does not answer counts as 0; a warning
        says how many there are. A run that answers none of them is refused.
    """
    judgements = read_qrels(qrels)
    return measured(Scorer(measures, judgements), runs, qrels=qrels, unjudged=Unjudged(judgements))


def measured(
    scorer: Scorer,
    runs: Sequence[str | os.PathLike[str]],
    *,
    qrels: str | os.PathLike[str] = "the judgements",
    unjudged: Unjudged | None = None,
) -> list[Row]:
    """A row per run, in the order given; messages call the scorer's judgements `qrels`, and `unjudged` looks on."""
    rows = []
    for path, name in zip(map(Path, runs), _names(runs), strict=True):
        run = read_run(path)
        rows.append(row_of(scorer, run, name=name, path=path, costs=read_costs(path), qrels=qrels))
        if unjudged is not None:
            unjudged.check(run, path)
    return rows


def row_of(
    scorer: Scorer,
    run: Sequence["ScoredDoc"],
    *,
    name: str,
    path: Path,
    costs: Costs | None,
    qrels: str | os.PathLike[str] = "the judgements",
) -> Row:
    """The row of a run that was read from `path`."""
    hit = {each.query_id for each in run}
    answered = np.array([query in hit for query in scorer.queries])
    _check_answered(answered, path, qrels)
    values = scorer.values(run)
    means = {measure: scorer.aggregate(measure, each) for measure, each in values.items()}
    return Row(name, path, values, means, answered, costs)


def place_of(baseline: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]]) -> int:
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
