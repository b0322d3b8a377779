"""Training examples: questions with answers, and passages that contain an answer."""

import logging
import os
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from tour_pyserini.data.input_files import Location, first_field, read_lines
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.texts import BeirTexts
from tour_pyserini.data.topics import ANSWER_FIELDS, TEXT_FIELDS, Question, read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import word_offsets

if TYPE_CHECKING:
    from tour_pyserini.train import Source, TrainRequest

log = logging.getLogger(__name__)

_CONTEXT_FIELDS = ("context", "passage")
_Item = TypeVar("_Item")


class Example(NamedTuple):
    """A question, its answers, and a passage that contains one of them; each passage has its own `docid`."""

    question: str
    answers: Sequence[str]
    docid: str
    title: str
    text: str


def _read_examples(
    questions: str | os.PathLike[str],
    corpus: str | os.PathLike[str] | None = None,
    qrels: str | os.PathLike[str] | None = None,
) -> list[Example]:
    """Read training data; questions without an answer in their passage are left out.

    Args:
        questions: JSON lines with a `question` (or `text`) and `answers`. The passage of a question is its `context`,
            with an optional `title`; or the document of the corpus whose id is `gold`; or the documents that are
            judged relevant in the qrels. A question without passages is left out, whatever else its line has.
        corpus: a BEIR corpus.jsonl.
        qrels: judgements, TREC's or BEIR's.

    Raises:
        TourError: if a line has a wrong format, or if no question has an answer in its passage.
    """
    texts = BeirTexts(corpus) if corpus else None
    relevant: dict[str, list[str]] = {}
    for qrel in read_qrels(qrels) if qrels else ():
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, []).append(qrel.doc_id)
    examples, total = [], 0
    for line in read_lines(questions):
        record = line.json_object()
        for docid, title, text in _passages(line, record, texts, relevant):
            question, answers = first_field(record, TEXT_FIELDS), first_field(record, ANSWER_FIELDS)
            if not isinstance(question, str):
                line.refuse("has no question")
            answers = line.strings([answers] if isinstance(answers, str) else answers, "answers")
            total += 1
            if answer_spans(text, answers):
                examples.append(Example(question, answers, docid, title, text))
    if not examples:
        raise TourError(f"{questions} has no question with an answer in its passage; check corpus and qrels.")
    log.info("%s: %d of %d questions have an answer in their passage", questions, len(examples), total)
    return examples


def _passages(
    line: Location, record: dict[str, Any], texts: BeirTexts | None, relevant: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """The passages of a question: docid, title, text."""
    context = first_field(record, _CONTEXT_FIELDS)
    if isinstance(context, str):
        yield f"{Path(line.path).name}:{context}", str(record.get("title") or ""), context
        return
    gold = record.get("gold")
    docids = relevant.get(str(record.get("_id")), []) if gold is None else [gold] if isinstance(gold, str) else gold
    if not isinstance(docids, list) or texts is None:
        line.refuse("has no `context`; give one, or a corpus and `gold` or qrels")
    for docid in docids:
        if (passage := texts.get(docid)) is None:
            line.refuse(f"needs document {docid!r}, which is not in {texts.path}; give the corpus of the questions")
        title, text = passage.parts  # type: ignore[attr-defined]
        yield f"{texts.path}:{docid}", title, text


def training_examples(request: "TrainRequest") -> tuple[list[Example], list[Example]]:
    """The examples of a training: those to train on, and those to validate on.

    Without validation sources, a share of the passages is held out with all their questions. Where these are more than
    enough, the others are not trained on either.
    """
    examples, held_out = (
        [example for source in sources for example in _read_examples(*source)]
        for sources in (request.data, request.validation)
    )
    most = request.validation_questions
    if held_out:
        return examples, held_out[:most]
    passages = list(dict.fromkeys(example.docid for example in examples))
    _, chosen = map(set, _split(request, passages, len(passages)))
    kept = [example for example in examples if example.docid not in chosen]
    return kept, [example for example in examples if example.docid in chosen][:most]


def training_questions(request: "TrainRequest") -> tuple[list[Question], list[Question]]:
    """The questions of a training whose sources are topics with answers: to train on, and to validate on."""
    questions, most = _read_topics(request.data), request.validation_questions
    if request.validation:
        return questions, _read_topics(request.validation)[:most]
    return _split(request, questions, most)


def _split(request: "TrainRequest", items: Sequence[_Item], most: int) -> tuple[list[_Item], list[_Item]]:
    """The items to train on, in their order, and at most so many that are held out, in random order."""
    order = np.random.default_rng([request.seed, 17]).permutation(len(items)).tolist()
    count = min(most, max(1, round(request.validation_share * len(items))))
    if count >= len(items):
        raise TourError("nothing is left to train on, as all is held out; give more data, or --validation.")
    return [items[position] for position in sorted(order[count:])], [items[position] for position in order[:count]]


def _read_topics(sources: Sequence["Source"]) -> list[Question]:
    """The questions of several topics, with new ids: different topics may have the same ids."""
    questions = [question for source in sources for topics in source for question in read_questions(topics)]
    return [question._replace(qid=str(number)) for number, question in enumerate(questions)]


def answer_spans(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Where answers are in a text: (begin, end) offsets, in order; whole words are compared, case ignored.

    Example:
        >>> answer_spans("Linda Davis sang; LINDA  DAVIS won.", ["linda davis"])
        [(0, 11), (18, 30)]
    """
    (offsets, words), spans = _words_of(text), set()
    for answer in answers:
        _, wanted = _words_of(answer)
        for first in range(len(words) - len(wanted) + 1 if wanted else 0):
            if words[first : first + len(wanted)] == wanted:
                spans.add((offsets[first][0], offsets[first + len(wanted) - 1][1]))
    return sorted(spans)


@lru_cache(maxsize=4096)  # training looks for many answers in the same texts
def _words_of(text: str) -> tuple[list[list[int]], list[str]]:
    """Offsets of the words, and the words without case."""
    offsets = word_offsets(text).tolist()
    return offsets, [unicodedata.normalize("NFD", text[begin:end]).casefold() for begin, end in offsets]
