"""Exact match (EM) and F1 of predicted answers, and their values beside the measures of a run."""

import logging
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.data.predictions import read_predictions
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import pattern_match, warn_about_unusable_answers
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer

if TYPE_CHECKING:
    from ir_measures import Metric

log = logging.getLogger(__name__)

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """SQuAD's normal form: lower case, no ASCII punctuation, no English articles, single spaces.

    Example:
        >>> normalise("The  Beatles!")
        'beatles'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: Collection[str]) -> float:
    """1 if the prediction equals one of the answers after normalisation; an empty list counts as one empty answer."""
    return float(any(normalise(predicted) == normalise(answer) for answer in gold or [""]))


def f1(predicted: str, gold: Collection[str]) -> float:
    """The best word-level F1 over the answers, after normalisation; an empty list counts as one empty answer."""
    return max(_f1(normalise(predicted).split(), normalise(answer).split()) for answer in gold or [""])


def _f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    if not predicted or not gold:  # as in SQuAD 2.0
        return float(predicted == gold)
    common = (Counter(predicted) & Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold))


MEASURES: Mapping[str, Callable[[str, Collection[str]], float]] = MappingProxyType({"EM": exact_match, "F1": f1})
_NAME = re.compile(rf"({'|'.join(MEASURES)})@([1-9][0-9]*)")


def answer_means(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The means of exact match (`EM`) and `F1` over questions, for one predicted answer per question.

    Example:
        >>> answer_means(["The Beatles", "1902"], [["Beatles"], ["1901"]])
        {'EM': 0.5, 'F1': 0.5}
    """
    pairs = list(zip(predicted, answers, strict=True))
    return {name: float(np.mean([measure(*pair) for pair in pairs])) for name, measure in MEASURES.items()}


def is_answer_measure(name: str) -> bool:
    """Whether a name is that of a measure of answers: EM@k or F1@k."""
    return _NAME.fullmatch(name) is not None


def answers_needed(measures: Iterable[str]) -> int:
    """How many predicted answers per question the measures need: their largest cutoff; 0 if none measures answers."""
    return max((_name_and_cutoff(name)[1] for name in measures if is_answer_measure(name)), default=0)


class AnswerScorer:
    """Measures predicted answers question by question; has the interface of `Scorer`.

    `EM@k` and `F1@k` are the best exact match and the best F1 among the first k predictions. Where answers
    are regular expressions, EM is 1 for a prediction at whose beginning one of them matches, and F1 is not available.

    Attributes:
        measures: the measures' names.
        queries: the ids of all questions, in their order.

    Example:
        scorer = AnswerScorer(["EM@1", "F1@1"], read_questions("topics.dpr.nq.test.txt"))
        values = scorer.values(read_predictions("answers.jsonl"))["EM@1"]
        mean = scorer.aggregate("EM@1", values)
    """

    def __init__(self, measures: Sequence[str], questions: Sequence[Question], *, regex: bool = False) -> None:
        self._parsed = {name: _name_and_cutoff(name) for name in measures}
        self._functions = {"EM": pattern_match} if regex else MEASURES
        for name, (measure, _) in self._parsed.items():
            if measure not in self._functions:
                raise TourError(f"{name} compares words, but these answers are regular expressions; use EM@k.")
        if regex:
            warn_about_unusable_answers(questions, regex=True)
        self._gold = {question.qid: question.answers for question in questions}
        self.measures = list(self._parsed)
        self.queries = list(self._gold)

    def iter_calc(self, predictions: Mapping[str, Sequence[str]]) -> Iterator["Metric"]:
        """(query_id, measure, value) for every question and measure, as ir-measures gives them.

        Args:
            predictions: answer strings by question id, best first; a question without any scores 0.
        """
        from ir_measures import Metric

        objects = {name: _ir_measure(measure) @ cutoff for name, (measure, cutoff) in self._parsed.items()}
        for qid in predictions:
            if qid not in self._gold:
                raise TourError(f"there is a prediction for {qid!r}, which is not among the questions.")
        for qid, gold in self._gold.items():
            for name, (measure, cutoff) in self._parsed.items():
                first = predictions.get(qid, ())[:cutoff]
                value = max((self._functions[measure](answer, gold) for answer in first), default=0.0)
                yield Metric(query_id=qid, measure=objects[name], value=value)

    def values(self, predictions: Mapping[str, Sequence[str]]) -> Mapping[str, np.ndarray]:
        """Each measure's value for every question, float64 [questions]; 0 for a question without predictions."""
        values: dict[str, list[float]] = {name: [] for name in self.measures}
        for metric in self.iter_calc(predictions):
            values[str(metric.measure)].append(metric.value)
        return {name: np.array(by_question) for name, by_question in values.items()}

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean; NaN if there are no values."""
        return float(values.mean()) if len(values) else float("nan")


class ScorerWithAnswers:
    """A `Scorer` of runs that also computes measures of answers, over the same queries.

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
        self.measures = list(dict.fromkeys(_canonical(name) for name in measures))
        self.queries = scorer.queries

    def add(self, run: MeasuredRun, predictions: str | os.PathLike[str]) -> MeasuredRun:
        """The measured run, with the measures of the answers in a predictions file."""
        return self.add_answers(run, read_predictions(predictions), source=predictions)

    def add_answers(
        self, run: MeasuredRun, predicted: Mapping[str, Sequence[str]], *, source: str | os.PathLike[str]
    ) -> MeasuredRun:
        """The measured run, with the measures of answers.

        Args:
            run: measured by the scorer of runs.
            predicted: answers by question id, best first.
            source: the file that the answers came from, for messages.
        """
        values = {**run.values, **self._answers.values(self._judged(predicted, source))}
        ordered = {measure: values[measure] for measure in self.measures}
        means = {measure: self.aggregate(measure, by_query) for measure, by_query in ordered.items()}
        return run._replace(values=ordered, means=means)

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean over queries, as the measure's own scorer computes it."""
        return (self._answers if measure in self._answers.measures else self._runs).aggregate(measure, values)

    def _judged(
        self, predicted: Mapping[str, Sequence[str]], source: str | os.PathLike[str]
    ) -> dict[str, Sequence[str]]:
        """The predictions for judged queries."""
        for qid in predicted:
            if qid not in self._questions:
                raise TourError(
                    f"{source} has a prediction for {qid!r}, which is not in the topics; give the topics of this file."
                )
        judged = {qid: predicted[qid] for qid in self.queries if qid in predicted}
        if not judged:
            raise TourError(f"{source} has no prediction for a judged question; give the run's predictions.")
        if len(judged) < len(self.queries):
            count = f"{len(judged)} of the {len(self.queries)} judged questions"
            log.warning("%s has predictions for %s; the others count as 0", source, count)
        return judged


def _name_and_cutoff(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise TourError(f"there is no measure {name!r} of answers; use EM@1, F1@1 or another cutoff.")
    return match[1], int(match[2])


def _ir_measure(name: str) -> Any:
    """A `Measure` of ir-measures, so that it is printed, compared and averaged like its other measures."""
    from ir_measures import Measure, ParamInfo

    cutoff = {"cutoff": ParamInfo(dtype=int, required=True, desc="how many predictions count")}
    return type(name, (Measure,), {"__name__": name, "NAME": name, "SUPPORTED_PARAMS": cutoff})()


def _canonical(name: str) -> str:
    """A measure's name as its scorer writes it."""
    import ir_measures

    return name if is_answer_measure(name) else str(ir_measures.parse_measure(name))
