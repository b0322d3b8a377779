"""Test-train overlap: which test questions, or their answers, are in the training questions (Lewis et al., 2020)."""

from collections.abc import Iterator, Sequence

from tour_pyserini.data.topics import Question
from tour_pyserini.evaluation.answer_measures import normalise


def overlap_splits(questions: Sequence[Question], train: Sequence[Question]) -> Iterator[tuple[str, str]]:
    """Each question's id and its split; texts are equal if they are the same after SQuAD's normalisation.

    `question_overlap`: the question is a training question. `answer_overlap_only`: it is not, but one of its answers
    answers a training question. `no_overlap`: neither. The published annotations, made by people, also count
    paraphrases as the same question; this function does not.

    Example:
        >>> seen = [Question("1", "who sang hello", ["Adele"])]
        >>> asked = [Question("a", "Who sang Hello?", ["Adele"]), Question("b", "who is this", ["adele"])]
        >>> list(overlap_splits(asked, seen))
        [('a', 'question_overlap'), ('b', 'answer_overlap_only')]
    """
    texts = {normalise(question.text) for question in train}
    answers = {normalise(answer) for question in train for answer in question.answers}
    for known in (texts, answers):
        known.discard("")  # "The" and "A" both become empty, but have nothing in common
    for question in questions:
        if normalise(question.text) in texts:
            yield question.qid, "question_overlap"
        elif answers.isdisjoint(map(normalise, question.answers)):
            yield question.qid, "no_overlap"
        else:
            yield question.qid, "answer_overlap_only"
