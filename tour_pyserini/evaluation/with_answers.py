"""Measures of predicted answers beside those of the runs they came with."""

import os
from collections.abc import Sequence

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_scores import AnswerScorer
from tour_pyserini.evaluation.comparison import Row
from tour_pyserini.evaluation.predictions import read_predictions
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.topics.questions import Question


class ScorerWithAnswers:
    """A `Scorer` of runs that also knows measures of answer strings, over the same queries.

    Attributes:
        measures: those of the runs, then those of the answers.
        queries: the judged queries.
    """

    def __init__(self, scorer: Scorer, measures: Sequence[str], questions: Sequence[Question]) -> None:
        """Add `measures` such as EM@1 and F1@1 to a scorer; every judged query must be among the questions."""
        by_id = {question.qid: question for question in questions}
        for query in scorer.queries:
            if query not in by_id:
                raise TourError(f"the judged query {query!r} is not among the questions; give their topics file.")
        self._runs = scorer
        self._answers = AnswerScorer(measures, [by_id[query] for query in scorer.queries])
        self.measures = [*scorer.measures, *self._answers.measures]
        self.queries = scorer.queries

    def add(self, row: Row, predictions: str | os.PathLike[str]) -> Row:
        """The row of a run, with the measures of the answers in a predictions file."""
        judged = set(self.queries)
        kept = {qid: answers for qid, answers in read_predictions(predictions).items() if qid in judged}
        values = self._answers.values(kept)
        means = {measure: self._answers.aggregate(measure, each) for measure, each in values.items()}
        return row._replace(values={**row.values, **values}, means={**row.means, **means})

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean over queries, as the measure's own scorer has it."""
        return (self._answers if measure in self._answers.measures else self._runs).aggregate(measure, values)
