"""Exact match and F1 as measures beside those of ir-measures."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import pattern_match, warn_of_answers
from tour_pyserini.evaluation.exact_match import MEASURES, best_of
from tour_pyserini.topics.questions import Question

if TYPE_CHECKING:
    from ir_measures import Metric

_NAME = re.compile(rf"({'|'.join(MEASURES)})@([1-9][0-9]*)")


class AnswerScorer:
    """Measures predicted answers question by question; used as `Scorer` is, and its values stand in the same tables.

    `EM@k` and `F1@k` are the best exact match and the best F1 among the first k predictions. Where answers
    are regular expressions, EM is 1 for a prediction at whose beginning one of them matches, and there is no F1.

    Attributes:
        measures: the measures' names.
        queries: the ids of all questions, in their order.

    Example:
        scorer = AnswerScorer(["EM@1", "F1@1"], read_questions("topics.dpr.nq.test.txt"))
        values = scorer.values(read_predictions("answers.jsonl"))["EM@1"]
        mean = scorer.aggregate("EM@1", values)
    """

    def __init__(self, measures: Sequence[str], questions: Sequence[Question], *, regex: bool = False) -> None:
        self._parsed = {name: _parsed(name) for name in measures}
        self._functions = {"EM": pattern_match} if regex else MEASURES
        for name, (measure, _) in self._parsed.items():
            if measure not in self._functions:
                raise TourError(f"{name} compares words, and these answers are regular expressions; use EM@k.")
        if regex:
            warn_of_answers(questions, regex=True)
        self._gold = {question.qid: question.answers for question in questions}
        self.measures = list(self._parsed)
        self.queries = list(self._gold)

    def iter_calc(self, predictions: Mapping[str, Sequence[str]]) -> Iterator["Metric"]:
        """(query_id, measure, value) for every measure and question, as ir-measures gives them.

        Args:
            predictions: answer strings by question id, best first; a question without any scores 0.
        """
        from ir_measures import Metric

        objects = {name: _measure(measure) @ cutoff for name, (measure, cutoff) in self._parsed.items()}
        for qid in predictions:
            if qid not in self._gold:
                raise TourError(f"there is a prediction for {qid!r}, which is not among the questions.")
        for qid, gold in self._gold.items():
            for name, (measure, cutoff) in self._parsed.items():
                value = best_of(self._functions[measure], predictions.get(qid, ())[:cutoff], gold)
                yield Metric(query_id=qid, measure=objects[name], value=value)

    def values(self, predictions: Mapping[str, Sequence[str]]) -> Mapping[str, np.ndarray]:
        """Each measure's value for every question, float64 [questions]; 0 for a question without predictions."""
        values: dict[str, list[float]] = {name: [] for name in self.measures}
        for metric in self.iter_calc(predictions):
            values[str(metric.measure)].append(metric.value)
        return {name: np.array(each) for name, each in values.items()}

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean; not a number where there are no values."""
        return float(values.mean()) if len(values) else float("nan")


def is_answer_measure(name: str) -> bool:
    """Whether a measure's name is one of answers: EM@k or F1@k."""
    return _NAME.fullmatch(name) is not None


def answers_needed(measures: Iterable[str]) -> int:
    """How many answers of a question the measures look at; 0 where none is one of answers."""
    return max((_parsed(name)[1] for name in measures if is_answer_measure(name)), default=0)


def _parsed(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise TourError(f"there is no measure {name!r} of answers; use EM@1, F1@1 or another cutoff.")
    return match[1], int(match[2])


def _measure(name: str) -> Any:
    """A measure of ir-measures' own kind, so that it is shown, compared and averaged as theirs are."""
    from ir_measures import Measure, ParamInfo

    cutoff = {"cutoff": ParamInfo(dtype=int, required=True, desc="how many predictions count")}
    return type(name, (Measure,), {"__name__": name, "NAME": name, "SUPPORTED_PARAMS": cutoff})()
