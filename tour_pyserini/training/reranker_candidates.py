"""Training data of a phrase re-ranker: the phrases that the retriever finds, and which of them are right."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_matching import matcher_for
from tour_pyserini.evaluation.answer_measures import exact_match
from tour_pyserini.rerankers.phrase_input import PhraseInput
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.support.resumable import whole_lines, write_through

AT_ONCE = 16  # questions that are searched and saved together
POSITIVES = ("context", "phrase")


class Candidates(NamedTuple):
    """A question, with the right and the wrong phrases that were retrieved for it."""

    question: str
    right: Sequence[PhraseSpan]
    wrong: Sequence[PhraseSpan]


def find_candidates(
    questions: Sequence[Question],
    searcher: PhraseSearcher,
    phrase_input: PhraseInput,
    *,
    depth: int,
    positive: str,
    file: Path,
) -> list[Candidates]:
    """Retrieve phrases for each question, and separate the right ones from the wrong ones.

    Questions that do not have both right and wrong phrases are left out.

    Args:
        questions: with their answers.
        searcher: the retriever.
        phrase_input: what the re-ranker will read of a phrase.
        depth: phrases retrieved for each question.
        positive: a phrase is right if its `context` contains an answer, as in the paper, or if the `phrase` is one.
        file: the phrases are saved here as they are found; questions that it already has are not searched again.
    """
    from tqdm import tqdm

    judge = _judge(searcher, phrase_input, positive)
    with open(file, "a+b") as saved:
        lines = whole_lines(saved)
        saved.truncate(sum(map(len, lines)))
        with tqdm(total=len(questions), initial=len(lines), unit="question", desc="retrieving", disable=None) as bar:
            for start in range(len(lines), len(questions), AT_ONCE):
                some = questions[start : start + AT_ONCE]
                hits = searcher.batch_search([q.text for q in some], [q.qid for q in some], depth)
                for question in some:
                    spans = [PhraseSpan(hit.docid, hit.begin, hit.end) for hit in hits[question.qid]]
                    judged = [[*span, judge(span, question.answers)] for span in spans]
                    lines.append(f"{json.dumps(judged, ensure_ascii=False)}\n".encode())
                write_through(saved, b"".join(lines[start:]))
                bar.update(len(some))
    try:
        kept = [json.loads(line.decode()) for line in lines]
        result = [_candidates(question, found) for question, found in zip(questions, kept, strict=True)]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise TourError(
            f"{file} is damaged ({first_line(error):.200}); delete it, and its phrases are found again."
        ) from error
    useful = [candidates for candidates in result if candidates.right and candidates.wrong]
    if not useful:
        raise TourError("no question has both right and wrong phrases among its candidates; check index and answers.")
    return useful


def _judge(
    searcher: PhraseSearcher, phrase_input: PhraseInput, positive: str
) -> Callable[[PhraseSpan, Sequence[str]], bool]:
    """A function that tells whether a phrase is right, given the answers."""
    if positive not in POSITIVES:
        raise TourError(f"positive must be {' or '.join(POSITIVES)}, not {positive!r}.")

    def judge(span: PhraseSpan, answers: Sequence[str]) -> bool:
        _, text = title_and_text(searcher.texts, span)
        if positive == "phrase":
            return exact_match(text[span.begin : span.end], answers) > 0
        first, last = phrase_input.context_span(text, span.begin, span.end)
        return bool(matcher_for([answers]).matches(text[first:last]))

    return judge


def _candidates(question: Question, judged: list[tuple[str, int, int, bool]]) -> Candidates:
    right, wrong = ([PhraseSpan(*span[:3]) for span in judged if span[3] is kind] for kind in (True, False))
    return Candidates(question.text, right, wrong)
