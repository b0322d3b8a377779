"""What a phrase re-ranker learns from: the phrases that the retriever finds, and which of them are right."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import matcher_for
from tour_pyserini.evaluation.answer_measures import exact_match
from tour_pyserini.rerankers.phrase_input import PhraseInput
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.support.resumable import whole_lines, write_through

AT_ONCE = 16  # questions that are searched and saved together
POSITIVES = ("context", "phrase")


class Candidates(NamedTuple):
    """A question, and where the right and the wrong phrases for it stand."""

    question: str
    right: Sequence[PhraseSpan]
    wrong: Sequence[PhraseSpan]


def find_candidates(
    questions: Sequence[Question],
    searcher: PhraseSearcher,
    shown: PhraseInput,
    *,
    depth: int,
    positive: str,
    file: Path,
) -> list[Candidates]:
    """The first `depth` phrases for each question, sorted out; questions that have not both kinds are left out.

    Args:
        questions: with their answers.
        searcher: the retriever.
        shown: what the re-ranker will read.
        depth: phrases of a question.
        positive: a phrase is right if its `context` contains an answer, as in the paper, or if the `phrase` is one.
        file: where they are kept as they are found; what it holds already is not searched again.
    """
    from tqdm import tqdm

    judge = _judge(searcher, shown, positive)
    with open(file, "a+b") as kept:
        lines = whole_lines(kept)
        kept.truncate(sum(map(len, lines)))
        with tqdm(total=len(questions), initial=len(lines), unit="question", desc="retrieving", disable=None) as bar:
            for start in range(len(lines), len(questions), AT_ONCE):
                some = questions[start : start + AT_ONCE]
                found = searcher.batch_search([one.text for one in some], [one.qid for one in some], depth)
                for question in some:
                    places = [PhraseSpan(hit.docid, hit.begin, hit.end) for hit in found[question.qid]]
                    judged = [[*place, judge(place, question.answers)] for place in places]
                    lines.append(f"{json.dumps(judged, ensure_ascii=False)}\n".encode())
                write_through(kept, b"".join(lines[start:]))
                bar.update(len(some))
    result = [_sorted_out(question, json.loads(line)) for question, line in zip(questions, lines, strict=True)]
    useful = [one for one in result if one.right and one.wrong]
    if not useful:
        raise TourError("no question has both right and wrong phrases among its candidates; check index and answers.")
    return useful


def _judge(searcher: PhraseSearcher, shown: PhraseInput, positive: str) -> Callable[[PhraseSpan, Sequence[str]], bool]:
    if positive not in POSITIVES:
        raise TourError(f"a phrase is right by its {' or its '.join(POSITIVES)}, not by its {positive!r}.")

    def judge(place: PhraseSpan, answers: Sequence[str]) -> bool:
        _, text = title_and_text(searcher.texts, place)
        if positive == "phrase":
            return exact_match(text[place.begin : place.end], answers) > 0
        first, last = shown.stretch(text, place.begin, place.end)
        return bool(matcher_for([answers]).matches(text[first:last]))

    return judge


def _sorted_out(question: Question, judged: list[tuple[str, int, int, bool]]) -> Candidates:
    right, wrong = ([PhraseSpan(*one[:3]) for one in judged if one[3] is wanted] for wanted in (True, False))
    return Candidates(question.text, right, wrong)
