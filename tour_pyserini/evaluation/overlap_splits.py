"""Which test questions a training set has seen, by question and by answer (Lewis et al., 2020)."""

from collections.abc import Iterator, Sequence

from tour_pyserini.data.topics import Question
from tour_pyserini.evaluation.answer_measures import normalise


def overlap_splits(questions: Sequence[Question], train: Sequence[Question]) -> Iterator[tuple[str, str]]:
    """Each question's id with its one split, by texts that are the same after SQuAD's normalisation.

    `question_overlap`: the question is a training question. `answer_overlap_only`: it is none, and one of its answers
    answers a training question. `no_overlap`: neither. The published annotations count paraphrases as the same
    question, which takes people; these do not.

    Example:
        >>> seen = [Question("1", "who sang hello", ["Adele"])]
        >>> asked = [Question("a", "Who sang Hello?", ["Adele"]), Question("b", "who is this", ["adele"])]
        >>> list(overlap_splits(asked, seen))
        [('a', 'question_overlap'), ('b', 'answer_overlap_only')]
    """
    texts = {normalise(question.text) for question in train}
    answers = {normalise(answer) for question in train for answer in question.answers}
    for known in (texts, answers):
        known.discard("")  # what is left of "The", which has nothing in common with "A"
    for question in questions:
        if normalise(question.text) in texts:
            yield question.qid, "question_overlap"
        elif answers.isdisjoint(map(normalise, question.answers)):
            yield question.qid, "no_overlap"
        else:
            yield question.qid, "answer_overlap_only"
