"""Questions with their answers and the passages that hold them."""

import logging
import os
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.data.beir_texts import BeirTexts
from tour_pyserini.data.lines import Line, first_field, json_object, read_lines
from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.data.text_spans import word_offsets
from tour_pyserini.data.topic import checked_answers
from tour_pyserini.data.topic_formats import ANSWER_FIELDS, TEXT_FIELDS
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import sha256

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
    question, answers = first_field(record, TEXT_FIELDS), first_field(record, ANSWER_FIELDS)
    if not isinstance(question, str) or not question.strip():
        line.refuse("has no question")
    return question, checked_answers(line, [answers] if isinstance(answers, str) else answers)


def _passages(
    line: Line, record: dict[str, Any], texts: BeirTexts | None, relevant: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """The passages of a question: docid, title, text."""
    context = first_field(record, CONTEXT_FIELDS)
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


Source = Sequence[str]
"""Questions, and where they need them a corpus and qrels."""


def read_sources(sources: Sequence[Source]) -> list[Example]:
    """The examples of several files."""
    for source in sources:
        if not 1 <= len(source) <= 3:
            raise TourError(f"{len(source)} files came for one source of data; give questions, a corpus and qrels.")
    return [example for source in sources for example in read_examples(*source)]


def split(examples: Sequence[Example], *, share: float, most: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Training and validation examples: a share of the passages, and all questions about them, are held out.

    Args:
        examples: to be split.
        share: of the passages.
        most: validation questions at most; those beyond are not trained on either.
        seed: of the choice.
    """
    if not 0 < share < 1:
        raise TourError(f"--validation-share must lie between 0 and 1, not {share}.")
    passages = list(dict.fromkeys(example.docid for example in examples))
    held = max(1, round(share * len(passages)))
    if held == len(passages):
        raise TourError("one passage cannot be both trained on and held out; give more data, or --validation.")
    order = np.random.default_rng([seed, 17]).permutation(len(passages))
    out = {passages[place] for place in order[:held]}
    return [one for one in examples if one.docid not in out], [one for one in examples if one.docid in out][:most]


def described(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The files by name and content, for the record; what is no file, such as Pyserini's topics, by name alone."""
    return [{path: sha256(path) if Path(path).is_file() else None for path in source} for source in sources]


def answer_spans(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Where answers stand in a text, word by word and without regard to case: (begin, end) in characters, in order.

    Example:
        >>> answer_spans("Linda Davis sang; LINDA  DAVIS won.", ["linda davis"])
        [(0, 11), (18, 30)]
    """
    words, plain, places = _words_of(text)
    found = set()
    for answer in answers:
        wanted = [_plain(answer[begin:end]) for begin, end in word_offsets(answer).tolist()]
        for place in places.get(wanted[0], []) if wanted else []:
            if plain[place : place + len(wanted)] == wanted:
                found.add((words[place][0], words[place + len(wanted) - 1][1]))
    return sorted(found)


@lru_cache(maxsize=4096)  # a training asks for many answers in the same texts
def _words_of(text: str) -> tuple[list[list[int]], list[str], dict[str, list[int]]]:
    """Where the words stand, what they are without case, and the places of each."""
    words = word_offsets(text).tolist()
    plain = [_plain(text[begin:end]) for begin, end in words]
    places: dict[str, list[int]] = {}
    for place, word in enumerate(plain):
        places.setdefault(word, []).append(place)
    return words, plain, places


def _plain(word: str) -> str:
    return unicodedata.normalize("NFD", word).casefold()
