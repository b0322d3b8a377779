"""Measures of runs, query by query, with ir-measures; and a check for hits that were not judged."""

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.run_records import read_record
from tour_pyserini.data.runs import read_run
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_matching import (
    NO_PASSAGE,
    answer_values,
    answers_needed,
    warn_about_unusable_answers,
)

if TYPE_CHECKING:
    from ir_measures import Measure, Qrel, ScoredDoc

log = logging.getLogger(__name__)

# `measure_runs` looks at this many hits of each query, and warns above this share of unjudged hits.
DEPTH, SHARE = 20, 0.1


class MethodVersion(NamedTuple):
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
        record: how it was made, and what it cost; empty if that was not recorded.
    """

    name: str
    path: Path
    values: Mapping[str, np.ndarray]
    means: Mapping[str, float]
    answered: np.ndarray
    record: Mapping[str, Any]

    def per_query(self, cost: str) -> float | None:
        """`pairs` (labels) or `updates` per query, if costs were recorded."""
        costs = self.record.get("costs")
        return costs and costs[cost] / max(costs["queries"], 1)

    @property
    def algorithm(self) -> MethodVersion | None:
        """The method that made the run and its version, if they were recorded."""
        method, versions = re.match(r"method=(\S+)", self.record.get("config", "")), self.record.get("algorithm")
        return MethodVersion(method[1], versions["method"]) if method and versions else None


class Scorer:
    """Measures runs, and the answers predicted with them, query by query over the judged queries.

    Attributes:
        measures: the measures' names, as ir-measures writes them, in the order given.
        queries: the judged queries, in the order of the judgements.
        source: what messages call the judgements.

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
        source: str | os.PathLike[str] = "the judgements",
    ) -> None:
        """Prepare the measures.

        Args:
            measures: names of ir-measures; EM@k and F1@k measure predicted answers.
            qrels: the judgements.
            questions: every judged query must be among them where answers are measured.
            regex: whether their answers are regular expressions.
            source: what messages call the judgements.
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
        self.source, self._qrels = source, qrels
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

    def unjudged_share(self, run: Iterable["ScoredDoc"]) -> float:
        """The mean share of the first 20 hits of a judged query that are not judged.

        It is 0 without grades of 0: there, a document that is not listed is simply not relevant.
        """
        import ir_measures

        if not any(qrel.relevance == 0 and qrel.doc_id != NO_PASSAGE for qrel in self._qrels):
            return 0.0
        hits = list(run)
        answered = {hit.query_id for hit in hits}
        judged = ir_measures.iter_calc([ir_measures.Judged @ DEPTH], self._qrels, hits)
        return 1 - float(np.mean([one.value for one in judged if one.query_id in answered]))


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
    """Measure run files with the measures of ir-measures, such as nDCG@10, R@100, Success@1."""
    return measure_runs(Scorer(measures, read_qrels(qrels), source=qrels), runs)


def measure_runs(
    scorer: Scorer,
    runs: Sequence[str | os.PathLike[str]],
    predictions: Sequence[Mapping[str, Sequence[str]]] = (),
) -> list[MeasuredRun]:
    """Measure run files, in the order given.

    A judged query without hits counts as 0, and a warning gives their number. A run without hits for any judged query
    is refused. A warning names a run with many hits that are not judged, if the first run has none: the comparison
    would not be fair.

    Args:
        scorer: computes the measures.
        runs: TREC runs; the record beside a run gives its costs.
        predictions: for each run its answers by question id, where answers are measured.
    """
    result: list[MeasuredRun] = []
    fair, names = True, [Path(run).name for run in runs]
    for path, name, predicted in zip_longest(map(Path, runs), names, predictions):
        run = read_run(path)
        name = name if names.count(name) == 1 else str(path)
        result.append(measure_run(scorer, run, name=name, path=path, record=read_record(path), predicted=predicted))
        share = scorer.unjudged_share(run) if fair and len(runs) > 1 else 0.0
        if share and len(result) == 1:
            fair = False
        elif share > SHARE:
            log.warning(
                "%.0f %% of the first %d hits of %s are not judged and count as not relevant, while the first run has "
                "none; make the judgements from all runs that are compared",
                *(100 * share, DEPTH, path),
            )
    return result


def measure_run(
    scorer: Scorer,
    run: Sequence["ScoredDoc"],
    *,
    name: str,
    path: Path,
    record: Mapping[str, Any] | None,
    predicted: Mapping[str, Sequence[str]] | None = None,
) -> MeasuredRun:
    """Measure a run that was read from `path`."""
    with_hits = {hit.query_id for hit in run}
    answered = np.array([query in with_hits for query in scorer.queries])
    if not answered.any():
        raise TourError(
            f"{path} and {scorer.source} have no query in common; give the judgements of the run's collection."
        )
    if not answered.all():
        count = f"{answered.sum()} of the {answered.size} judged queries"
        log.warning("%s has hits for %s; the others count as 0", path, count)
    values = scorer.values(run, predicted)
    means = {measure: scorer.aggregate(measure, by_query) for measure, by_query in values.items()}
    return MeasuredRun(name, path, values, means, answered, record or {})
