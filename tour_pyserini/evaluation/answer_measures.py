"""Exact match (EM) and F1 of predicted answers beside the measures of a run."""

import logging
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import pattern_match, warn_about_unusable_answers
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer

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
    return max((int(match[2]) for name in measures if (match := _NAME.fullmatch(name))), default=0)


def answer_values(
    measures: Iterable[str],
    questions: Sequence[Question],
    predictions: Mapping[str, Sequence[str]],
    *,
    regex: bool = False,
) -> dict[str, np.ndarray]:
    """Each measure's value for every question, float64 [questions]; 0 for a question without predictions.

    `EM@k` and `F1@k` are the best exact match and the best F1 among the first k predictions. Where answers are regular
    expressions, EM is 1 for a prediction at whose beginning one of them matches, and F1 is not available.

    Args:
        measures: their names.
        questions: the questions with their answers.
        predictions: answer strings by question id, best first.
        regex: whether answers are regular expressions.

    Example:
        >>> answer_values(["EM@1", "EM@2"], [Question("q1", "who", ["Adele"])], {"q1": ["Cher", "Adele"]})
        {'EM@1': array([0.]), 'EM@2': array([1.])}
    """
    values = {}
    for name in measures:
        match = _NAME.fullmatch(name)
        if match is None:
            raise TourError(f"there is no measure {name!r} of answers; use EM@1, F1@1 or another cutoff.")
        if regex and match[1] != "EM":
            raise TourError(f"{name} compares words, but these answers are regular expressions; use EM@k.")
        function, cutoff = pattern_match if regex else MEASURES[match[1]], int(match[2])
        best = [
            max(
                (function(answer, question.answers) for answer in predictions.get(question.qid, ())[:cutoff]), default=0
            )
            for question in questions
        ]
        values[name] = np.array(best, dtype=np.float64)
    return values


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
        self._runs, self._known, self._regex = scorer, by_id.keys(), regex
        self._questions = [by_id[query] for query in scorer.queries]
        self._of_answers = [name for name in measures if is_answer_measure(name)]
        answer_values(self._of_answers, [], {}, regex=regex)  # refuses F1 of regular expressions before runs are read
        if regex:
            warn_about_unusable_answers(self._questions, regex=True)
        self.measures = list(dict.fromkeys(_canonical(name) for name in measures))
        self.queries = scorer.queries

    def add_answers(
        self, run: MeasuredRun, predicted: Mapping[str, Sequence[str]], *, source: str | os.PathLike[str]
    ) -> MeasuredRun:
        """The measured run, with the measures of answers.

        Args:
            run: measured by the scorer of runs.
            predicted: answers by question id, best first.
            source: the file that the answers came from, for messages.
        """
        for qid in predicted:
            if qid not in self._known:
                raise TourError(
                    f"{source} has a prediction for {qid!r}, which is not in the topics; give the topics of this file."
                )
        count = sum(query in predicted for query in self.queries)
        if not count:
            raise TourError(f"{source} has no prediction for a judged question; give the run's predictions.")
        if count < len(self.queries):
            log.warning(
                "%s has predictions for %d of the %d judged questions; the others count as 0",
                *(source, count, len(self.queries)),
            )
        values = {**run.values, **answer_values(self._of_answers, self._questions, predicted, regex=self._regex)}
        ordered = {measure: values[measure] for measure in self.measures}
        means = {measure: self.aggregate(measure, by_query) for measure, by_query in ordered.items()}
        return run._replace(values=ordered, means=means)

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean over queries, as the scorer of runs computes it for its measures; NaN if there are no values."""
        if measure not in self._of_answers:
            return self._runs.aggregate(measure, values)
        return float(values.mean()) if len(values) else float("nan")


def _canonical(name: str) -> str:
    """A measure's name as its scorer writes it."""
    import ir_measures

    return name if is_answer_measure(name) else str(ir_measures.parse_measure(name))
