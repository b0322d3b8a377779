"""Measures of runs, query by query, with ir-measures; and a check for hits that were not judged."""

import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import zip_longest
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.records import read_record
from tour_pyserini.data.runs import best_first, read_run
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_matching import NO_PASSAGE, warn_about_unusable_answers
from tour_pyserini.evaluation.answer_measures import answer_values, answers_needed
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

    @property
    def labels(self) -> float | None:
        """Labels per query, if costs were recorded."""
        return None if self.costs is None else self.costs.pairs / max(self.costs.queries, 1)

    @property
    def updates(self) -> float | None:
        """Updates per query, if costs were recorded."""
        return None if self.costs is None else self.costs.updates / max(self.costs.queries, 1)


class Scorer:
    """Measures runs, and the answers predicted with them, query by query over the judged queries.

    Attributes:
        measures: the measures' names, as ir-measures writes them, in the order given.
        queries: the judged queries, in the order of the judgements.

    Example:
        scorer = Scorer(["nDCG@10"], read_qrels("qrels/demo.trec"))
        values = scorer.values(read_run("runs/demo.dense.trec"))["nDCG@10"]
        mean = scorer.aggregate("nDCG@10", values)
    """

    def __init__(
        self,
        measures: Sequence[str],
        qrels: Sequence["Qrel"],
        questions: Sequence[Question] = (),
        *,
        regex: bool = False,
    ) -> None:
        """Prepare the measures.

        Args:
            measures: names of ir-measures; EM@k and F1@k measure predicted answers.
            qrels: the judgements.
            questions: every judged query must be among them where answers are measured.
            regex: whether their answers are regular expressions.
        """
        import ir_measures

        self._of_answers = [name for name in measures if answers_needed([name])]
        of_runs = [name for name in measures if name not in self._of_answers]
        if not of_runs:
            raise TourError("there is no measure of runs; add one of ir-measures, such as Success@1.")
        try:
            parsed = {name: _parsed(name) for name in of_runs}
            self._evaluator = ir_measures.evaluator(list(parsed.values()), qrels)
        except (NameError, TypeError, ValueError, SyntaxError, AssertionError, RuntimeError) as error:
            raise TourError(
                f"ir-measures cannot compute the measures {' '.join(of_runs)}: {first_line(error)}."
            ) from error
        self._measures = {str(measure): measure for measure in parsed.values()}
        self.measures = list(dict.fromkeys(str(parsed.get(name, name)) for name in measures))
        self.queries = list(dict.fromkeys(qrel.query_id for qrel in qrels))
        self._questions, self._regex = {question.qid: question for question in questions}, regex
        if self._of_answers:
            answer_values(self._of_answers, [], {}, regex=regex)  # refuses F1 of regular expressions
            if unknown := [query for query in self.queries if query not in self._questions]:
                raise TourError(f"the judged query {unknown[0]!r} is not among the questions; give their topics file.")
            if regex:
                warn_about_unusable_answers([self._questions[query] for query in self.queries], regex=True)

    def values(
        self, run: Iterable["ScoredDoc"], predicted: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, np.ndarray]:
        """Each measure's value for every judged query, float64 [queries]; 0 for a query without hits or answers.

        Args:
            run: the hits.
            predicted: answers by question id, best first, where answers are measured.
        """
        positions = {query: position for position, query in enumerate(self.queries)}
        values = {measure: np.zeros(len(positions)) for measure in self.measures}
        try:
            for query, measure, value in self._evaluator.iter_calc(run):
                if query in positions:
                    values[str(measure)][positions[query]] = value
        except (OSError, RuntimeError, ValueError, SubprocessError) as error:  # some measures are programs
            raise TourError(f"ir-measures failed on {' '.join(self._measures)}: {first_line(error)}.") from error
        if self._of_answers:
            self._check_predictions(predicted or {})
            questions = [self._questions[query] for query in self.queries]
            values |= answer_values(self._of_answers, questions, predicted or {}, regex=self._regex)
        return values

    def _check_predictions(self, predicted: Mapping[str, Sequence[str]]) -> None:
        if unknown := [qid for qid in predicted if qid not in self._questions]:
            raise TourError(f"there is a prediction for {unknown[0]!r}, which is not in the topics; give its topics.")
        count = sum(query in predicted for query in self.queries)
        if not count:
            raise TourError("there is no prediction for a judged question; give the run's predictions.")
        if count < len(self.queries):
            log.warning("%d of the %d judged questions have answers; others count as 0", count, len(self.queries))

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean, or the sum for measures that count; NaN if there are no values."""
        if measure in self._of_answers:
            return float(values.mean()) if len(values) else math.nan
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
    predictions: Sequence[Mapping[str, Sequence[str]]] = (),
) -> list[MeasuredRun]:
    """Measure run files, in the order given.

    Args:
        scorer: computes the measures.
        runs: TREC runs; the record beside a run gives its costs.
        qrels: what messages call the scorer's judgements.
        judgements: warn about runs with many hits that these do not judge, if the first run has none: the comparison
            would not be fair. Without grades of 0 nothing is said: there, a document that is not listed is simply not
            relevant.
        predictions: for each run its answers by question id, where answers are measured.
    """
    result = []
    judged: dict[str, set[str]] = {}
    for qrel in judgements:
        judged.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    fair = any(qrel.relevance == 0 and qrel.doc_id != NO_PASSAGE for qrel in judgements)
    names = [Path(run).name for run in runs]
    for path, name, predicted in zip_longest(map(Path, runs), names, predictions):
        run = read_run(path)
        name = name if names.count(name) == 1 else str(path)
        record = read_record(path)
        costs = Costs.from_record(record.get("costs")) if record else None
        result.append(measure_run(scorer, run, name=name, path=path, costs=costs, qrels=qrels, predicted=predicted))
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
    predicted: Mapping[str, Sequence[str]] | None = None,
) -> MeasuredRun:
    """Measure a run that was read from `path`; messages call the scorer's judgements `qrels`."""
    with_hits = {hit.query_id for hit in run}
    answered = np.array([query in with_hits for query in scorer.queries])
    if not answered.any():
        raise TourError(f"{path} and {qrels} have no query in common; give the judgements of the run's collection.")
    if not answered.all():
        count = f"{answered.sum()} of the {answered.size} judged queries"
        log.warning("%s has hits for %s; the others count as 0", path, count)
    values = scorer.values(run, predicted)
    means = {measure: scorer.aggregate(measure, by_query) for measure, by_query in values.items()}
    return MeasuredRun(name, path, values, means, answered, costs)
