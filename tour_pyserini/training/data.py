"""Questions with their answers and the passages that hold them."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.files import read_qrels
from tour_pyserini.texts.beir import BeirTexts
from tour_pyserini.topics.json_record import ANSWER_FIELDS, TEXT_FIELDS, first_of
from tour_pyserini.topics.jsonl import json_object
from tour_pyserini.topics.lines import Line, read_lines
from tour_pyserini.topics.topic import checked_answers
from tour_pyserini.training.answers import answer_spans

log = logging.getLogger(__name__)

CONTEXT_FIELDS = ("context", "passage")


class Example(NamedTuple):
    """A question, its answers, and a passage that holds one of them; `docid` tells passages apart."""

    question: str
    answers: Sequence[str]
    docid: str
    title: str
    text: str


def read_examples(
    questions: str | os.PathLike[str],
    corpus: str | os.PathLike[str] | None = None,
    qrels: str | os.PathLike[str] | None = None,
) -> list[Example]:
    """Read training data; questions whose answers do not stand in their passage are passed over.

    Args:
        questions: JSON lines with a `question` (or `text`), `answers`, and where the answer is: a `context` with an
            optional `title`, or `gold`, the id of a passage of the corpus, or judged relevant in the qrels.
        corpus: a BEIR corpus.jsonl.
        qrels: judgements, TREC's or BEIR's.

    Raises:
        TourError: if a line cannot be used, or none can.
    """
    texts = BeirTexts(corpus) if corpus is not None else None
    relevant: dict[str, list[str]] = {}
    for qrel in read_qrels(qrels) if qrels is not None else ():
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, []).append(qrel.doc_id)
    found, passed = [], 0
    for line in read_lines(questions):
        record = json_object(line)
        question, answers = _question(line, record)
        for docid, title, text in _passages(line, record, texts, relevant):
            if answer_spans(text, answers):
                found.append(Example(question, answers, docid, title, text))
            else:
                passed += 1
    if not found:
        raise TourError(f"{questions} has no question whose answer stands in its passage; check corpus and qrels.")
    if passed:
        log.info("%s: %d of %d questions have no answer in their passage", questions, passed, passed + len(found))
    return found


def _question(line: Line, record: dict[str, Any]) -> tuple[str, list[str]]:
    question, answers = first_of(record, TEXT_FIELDS), first_of(record, ANSWER_FIELDS)
    if not isinstance(question, str) or not question.strip():
        line.refuse("has no question")
    return question, checked_answers(line, [answers] if isinstance(answers, str) else answers)


def _passages(
    line: Line, record: dict[str, Any], texts: BeirTexts | None, relevant: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """The passages of a question: docid, title, text."""
    context = first_of(record, CONTEXT_FIELDS)
    if isinstance(context, str):
        yield f"{Path(line.path).name}:{context}", str(record.get("title") or ""), context
        return
    gold = record.get("gold")
    docids = relevant.get(str(record.get("_id")), []) if gold is None else [gold] if isinstance(gold, str) else gold
    if not isinstance(docids, list) or texts is None:
        line.refuse("has no `context`; give one, or a corpus and `gold` or qrels")
    for docid in docids:
        title, text = texts[docid].parts  # type: ignore[attr-defined]
        yield f"{texts.path}:{docid}", title, text
