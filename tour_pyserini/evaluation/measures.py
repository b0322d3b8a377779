"""Measures of runs, query by query, with ir-measures; and a check for hits that were not judged."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.records import read_costs
from tour_pyserini.data.runs import best_first, read_run
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_matching import NO_PASSAGE
from tour_pyserini.support.costs import Costs

if TYPE_CHECKING:
    from ir_measures import Measure, Qrel, ScoredDoc

log = logging.getLogger(__name__)

# `measure_runs` looks at this many hits of each query, and warns above this share of unjudged hits.
DEPTH, SHARE = 20, 0.1


class Algorithm(NamedTuple):
    """A method by its name, and its version: it is raised when the method begins to compute something else."""

    method: str
    version: int


class MeasuredRun(NamedTuple):
    """A run with its measures.

    Attributes:
        name: the file's name; its path where two runs have the same name.
        path: the run file.
        values: each measure's value for every judged query, float64 [queries].
        means: the measures' means over the judged queries.
        answered: for every judged query, whether the run has hits for it, bool [queries].
        costs: what the run cost, if it was recorded.
        algorithm: the method that made the run and its version, if they were recorded and somebody asks.
    """

    name: str
    path: Path
    values: Mapping[str, np.ndarray]
    means: Mapping[str, float]
    answered: np.ndarray
    costs: Costs | None
    algorithm: Algorithm | None = None


class Scorer:
    """Measures runs query by query, over the judged queries.

    Attributes:
        measures: the measures' names, as ir-measures writes them.
        queries: the judged queries, in the order of the judgements.

    Example:
        scorer = Scorer(["nDCG@10"], read_qrels("qrels/demo.trec"))
        values = scorer.values(read_run("runs/demo.dense.trec"))["nDCG@10"]
        mean = scorer.aggregate("nDCG@10", values)
    """

    def __init__(self, measures: Sequence[str], qrels: Sequence["Qrel"]) -> None:
        import ir_measures

        try:
            parsed = [_parsed(measure) for measure in measures]
            self._evaluator = ir_measures.evaluator(parsed, qrels)
        except (NameError, TypeError, ValueError, SyntaxError, AssertionError, RuntimeError) as error:
            raise TourError(
                f"ir-measures cannot compute the measures {' '.join(measures)}: {first_line(error)}."
            ) from error
        self._measures = {str(measure): measure for measure in parsed}
        self.measures = list(self._measures)
        self.queries = list(dict.fromkeys(qrel.query_id for qrel in qrels))

    def values(self, run: Iterable["ScoredDoc"]) -> Mapping[str, np.ndarray]:
        """Each measure's value for every judged query, float64 [queries]; 0 for a query without hits."""
        positions = {query: position for position, query in enumerate(self.queries)}
        values = {measure: np.zeros(len(positions)) for measure in self.measures}
        try:
            for query, measure, value in self._evaluator.iter_calc(run):
                if query in positions:
                    values[str(measure)][positions[query]] = value
        except (OSError, RuntimeError, ValueError, SubprocessError) as error:  # some measures are programs
            raise TourError(f"ir-measures failed on {' '.join(self.measures)}: {first_line(error)}.") from error
        return values

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean, or the sum for measures that count; NaN if there are no values."""
        total = self._measures[measure].aggregator()
        for value in values:
            total.add(value)
        return float(total.result())


def _parsed(name: str) -> "Measure":
    import ir_measures

    measure = ir_measures.parse_measure(name)
    cutoff = measure.params.get("cutoff")
    if isinstance(cutoff, int) and cutoff < 1:  # pytrec_eval would abort the whole process
        raise ValueError(f"the cutoff of {name} must be at least 1")
    return measure


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
    return measure_runs(Scorer(measures, judgements), runs, qrels=qrels, judgements=judgements)


def measure_runs(
    scorer: Scorer,
    runs: Sequence[str | os.PathLike[str]],
    *,
    qrels: str | os.PathLike[str] = "the judgements",
    judgements: Sequence["Qrel"] = (),
) -> list[MeasuredRun]:
    """Measure run files, in the order given.

    Args:
        scorer: computes the measures.
        runs: TREC runs; the record beside a run gives its costs.
        qrels: what messages call the scorer's judgements.
        judgements: warn about runs with many hits that these do not judge, if the first run has none: the comparison
            would not be fair. Without grades of 0 nothing is said: there, a document that is not listed is simply not
            relevant.
    """
    result = []
    judged: dict[str, set[str]] = {}
    for qrel in judgements:
        judged.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    fair = any(qrel.relevance == 0 and qrel.doc_id != NO_PASSAGE for qrel in judgements)
    for path, name in zip(map(Path, runs), _names(runs), strict=True):
        run = read_run(path)
        result.append(measure_run(scorer, run, name=name, path=path, costs=read_costs(path), qrels=qrels))
        share = _unjudged_share(run, judged) if fair else 0.0
        if share and len(result) == 1:
            fair = False
        elif share > SHARE:
            log.warning(
                "%.0f %% of the first %d hits of %s are not judged and count as not relevant, while the first run has "
                "none; make the judgements from all runs that are compared",
                *(100 * share, DEPTH, path),
            )
    return result


def _unjudged_share(run: Sequence["ScoredDoc"], judged: Mapping[str, Set[str]]) -> float:
    """The share of unjudged documents among the first hits of the judged queries."""
    by_query: dict[str, list[ScoredDoc]] = {}
    for hit in run:
        if hit.query_id in judged:
            by_query.setdefault(hit.query_id, []).append(hit)
    first = [hit for hits in by_query.values() for hit in best_first(hits)[:DEPTH]]
    return sum(hit.doc_id not in judged[hit.query_id] for hit in first) / max(len(first), 1)


def measure_run(
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
    if not answered.any():
        raise TourError(f"{path} and {qrels} have no query in common; give the judgements of the run's collection.")
    if not answered.all():
        count = f"{answered.sum()} of the {answered.size} judged queries"
        log.warning("%s has hits for %s; the others count as 0", path, count)
    values = scorer.values(run)
    means = {measure: scorer.aggregate(measure, by_query) for measure, by_query in values.items()}
    return MeasuredRun(name, path, values, means, answered, costs)


def _names(runs: Sequence[str | os.PathLike[str]]) -> list[str]:
    names = [Path(run).name for run in runs]
    return [name if names.count(name) == 1 else str(run) for name, run in zip(names, runs, strict=True)]
