"""Judgements of open-domain question answering: a passage is relevant if its text contains an answer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tour_pyserini.evaluation.answer_matching import warn_of_answers
from tour_pyserini.evaluation.answer_texts import all_answer_texts, answer_text
from tour_pyserini.evaluation.passage_matching import Candidate, match_passages
from tour_pyserini.topics.questions import Question

if TYPE_CHECKING:
    from ir_measures import Qrel

# Stands in the judgements of a question that would have none: measures average over judged questions alone.
NO_PASSAGE = "no-passage"

Watch = Callable[[Iterable[Candidate], int], Iterable[Candidate]]


def _unwatched(candidates: Iterable[Candidate], total: int) -> Iterable[Candidate]:
    return candidates


def answering(
    questions: Sequence[Question],
    retrieved: Mapping[str, Iterable[str]],
    texts: Mapping[str, str],
    *,
    regex: bool = False,
    processes: int = 1,
    watch: Watch = _unwatched,
) -> dict[str, set[str]]:
    """Which of the retrieved passages contain an answer.

    Args:
        questions: the questions.
        retrieved: docids by question id; a passage that several questions retrieved is read and tokenised once.
        texts: docid to passage.
        regex: whether answers are regular expressions.
        processes: how many processes work.
        watch: takes passages and their number and gives the passages again, to show progress.

    Returns:
        By question id, for every question, the docids of passages that contain an answer.
    """
    warn_of_answers(questions, regex=regex)
    asked: dict[str, set[int]] = {}
    for position, question in enumerate(questions):
        for docid in retrieved.get(question.qid, ()):
            asked.setdefault(docid, set()).add(position)
    candidates = (Candidate(docid, answer_text(texts[docid]), who) for docid, who in asked.items())
    found: dict[str, set[str]] = {question.qid: set() for question in questions}
    answers = [question.answers for question in questions]
    for match in match_passages(watch(candidates, len(asked)), answers, regex=regex, processes=processes):
        for position in match.questions:
            found[questions[position].qid].add(match.docid)
    return found


def retrieved_qrels(
    questions: Sequence[Question], retrieved: Mapping[str, Sequence[str]], found: Mapping[str, set[str]]
) -> Iterator["Qrel"]:
    """Judgements of retrieved passages: 1 with an answer, 0 without; `found` is what `answering` found."""
    from ir_measures import Qrel

    for question in questions:
        docids = retrieved.get(question.qid) or [NO_PASSAGE]
        yield from (Qrel(question.qid, docid, int(docid in found[question.qid])) for docid in docids)


def corpus_qrels(
    questions: Sequence[Question],
    texts: Mapping[str, str],
    *,
    regex: bool = False,
    processes: int = 1,
    watch: Watch = _unwatched,
) -> Iterator["Qrel"]:
    """Judgements of a whole corpus: 1 for every passage with an answer, in the order of the corpus; no others.

    A question that no passage answers has one judgement of 0.
    """
    from ir_measures import Qrel

    warn_of_answers(questions, regex=regex)
    candidates = (Candidate(docid, text) for docid, text in all_answer_texts(texts))
    found: list[list[str]] = [[] for _ in questions]
    answers = [question.answers for question in questions]
    for match in match_passages(watch(candidates, len(texts)), answers, regex=regex, processes=processes):
        for position in match.questions:
            found[position].append(match.docid)
    for question, docids in zip(questions, found, strict=True):
        yield from (Qrel(question.qid, docid, 1) for docid in docids)
        if not docids:
            yield Qrel(question.qid, NO_PASSAGE, 0)
