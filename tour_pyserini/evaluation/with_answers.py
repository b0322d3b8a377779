"""Measures of predicted answers beside those of the runs they came with."""

import logging
import os
from collections.abc import Mapping, Sequence

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_scores import AnswerScorer, is_answer_measure
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.predictions import read_predictions
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.topics.questions import Question

log = logging.getLogger(__name__)


class ScorerWithAnswers:
    """A `Scorer` of runs that also knows measures of answer strings, over the same queries.

    Attributes:
        measures: of runs and of answers, in the order given.
        queries: the judged queries.
    """

    def __init__(
        self, scorer: Scorer, measures: Sequence[str], questions: Sequence[Question], *, regex: bool = False
    ) -> None:
        """Add measures of answers to a scorer.

        Args:
            scorer: measures the runs.
            measures: all measures: those of the scorer, and EM@k and F1@k, in the order of the tables.
            questions: every judged query must be among them.
            regex: whether answers are regular expressions.
        """
        by_id = {question.qid: question for question in questions}
        for query in scorer.queries:
            if query not in by_id:
                raise TourError(f"the judged query {query!r} is not among the questions; give their topics file.")
        self._runs = scorer
        self._questions = by_id.keys()
        of_answers = [name for name in measures if is_answer_measure(name)]
        self._answers = AnswerScorer(of_answers, [by_id[query] for query in scorer.queries], regex=regex)
        self.measures = list(dict.fromkeys(_written(name) for name in measures))
        self.queries = scorer.queries

    def add(self, row: Row, predictions: str | os.PathLike[str]) -> Row:
        """The row of a run, with the measures of the answers in a predictions file."""
        return self.add_answers(row, read_predictions(predictions), source=predictions)

    def add_answers(self, row: Row, predicted: Mapping[str, Sequence[str]], *, source: str | os.PathLike[str]) -> Row:
        """The row of a run, with the measures of answers by question id, best first, that came from `source`."""
        values = {**row.values, **self._answers.values(self._judged(predicted, source))}
        ordered = {measure: values[measure] for measure in self.measures}
        means = {measure: self.aggregate(measure, each) for measure, each in ordered.items()}
        return row._replace(values=ordered, means=means)

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean over queries, as the measure's own scorer has it."""
        return (self._answers if measure in self._answers.measures else self._runs).aggregate(measure, values)

    def _judged(self, predicted: Mapping[str, Sequence[str]], path: str | os.PathLike[str]) -> dict[str, Sequence[str]]:
        for qid in predicted:
            if qid not in self._questions:
                raise TourError(f"{path} has a prediction for {qid!r}, which is not in the topics; give its topics.")
        judged = {qid: predicted[qid] for qid in self.queries if qid in predicted}
        if not judged:
            raise TourError(f"{path} has no prediction for a judged question; give the run's predictions.")
        if len(judged) < len(self.queries):
            count = f"{len(judged)} of the {len(self.queries)} judged questions"
            log.warning("%s has predictions for %s; the others count as 0", path, count)
        return judged


def _written(name: str) -> str:
    """A measure's name as its scorer has it."""
    import ir_measures

    return name if is_answer_measure(name) else str(ir_measures.parse_measure(name))
