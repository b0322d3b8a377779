# PYTHON_ARGCOMPLETE_OK
"""Convert judgements, runs, results and questions."""

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tour_pyserini.answers import AnswerRequest, uses_patterns
from tour_pyserini.command import run
from tour_pyserini.data.input_files import first_field, is_column, read_lines
from tour_pyserini.data.json_results import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import Passage, open_texts
from tour_pyserini.data.topics import read_questions, read_topics
from tour_pyserini.encoders.encoder import text_of
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import normalise, passages_with_answers
from tour_pyserini.flags import Kinds, Request, option, parse_kind
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

_TAG = "tour_pyserini"
_LISTS = ("run.trec", "queries.jsonl", "corpus.jsonl")
"""What `convert lists` writes into its folder."""
_TEXTS = ("text", "contents", "content", "segment", "passage", "body")
"""Where a candidate of rank_llm has its text."""


@dataclass(frozen=True, kw_only=True)
class _FileRequest(Request):
    """Write one file, or folder, from another."""

    input: str = option(MISSING, "what is read")
    output: str = option(MISSING, "the file to write; of `lists`, the folder")


@dataclass(frozen=True, kw_only=True)
class _JsonRequest(AnswerRequest):
    """Write a run as JSON with passages and answers."""

    run: str = option(MISSING, "the TREC run")
    layout: str = option("pyserini", "whose JSON is written", choices=LAYOUTS)


@dataclass(frozen=True, kw_only=True)
class _RequestsRequest(Request):
    """Write a run as rank_llm's requests."""

    run: str = option(MISSING, "the TREC run")
    topics: str = option(MISSING, "its topics, in any format")
    corpus: str = option(MISSING, "the passages")
    output: str = option(MISSING, "the file to write")
    hits: int = option(100, "most candidates of a query", count=True)


@dataclass(frozen=True, kw_only=True)
class _SplitsRequest(Request):
    """Split test questions."""

    topics: str = option(MISSING, "test questions with answers, in any format of topics")
    train: Sequence[str] = option(MISSING, "training questions with answers, in any format")
    output: str = option(MISSING, "the file to write, lines `qid<TAB>split`")


class _Summary(NamedTuple):
    """The file that was written, and what it holds: counts by what was counted."""

    output: Path
    counts: Mapping[str, int]


def convert(kind: str, flags: Mapping[str, Any]) -> _Summary:
    """Write what is wanted; the result names the file, and counts what it holds.

    Args:
        kind: `qrels`, `json`, `run`, `requests`, `lists` or `splits`, as on the command line.
        flags: the flags of this kind by name.

    Example:
        convert("qrels", {"input": "scifact/qrels/test.tsv", "output": "qrels/scifact.trec"})
    """
    request, function = _KINDS[kind]
    done: _Summary = function(request.from_flags(flags))
    return done


def _qrels(request: _FileRequest) -> _Summary:
    """TREC qrels from judgements, BEIR's or TREC's."""
    qrels = read_qrels(request.input)
    write_qrels(qrels, request.output)
    counts = {"judgements": len(qrels), "queries": len({qrel.query_id for qrel in qrels})}
    return _Summary(Path(request.output), counts)


def _run_to_json(request: _JsonRequest) -> _Summary:
    """Retrieval results as JSON, in Pyserini's layout or DPR's, from a TREC run: passages with answers.

    Hits are in the order in which ir_measures and trec_eval evaluate them.
    """
    check_output(request.output, [request.run, request.topics, request.corpus])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    retrieved = read_rankings(request.run, (question.qid for question in questions), hits=request.hits)
    texts = open_texts(request.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    processes = request.processes
    answering = passages_with_answers(questions, texts, docids, regex=regex, processes=processes, progress=True)
    found = {qid: set(passages) for qid, passages in answering.items()}
    write_dpr_json(request.output, questions, retrieved, texts, found, layout=request.layout)
    counts = {"questions": len(questions), "with an answer": sum(map(bool, found.values()))}
    return _Summary(Path(request.output), counts | {"hits": sum(map(len, docids.values()))})


def _json_to_run(request: _FileRequest) -> _Summary:
    """A TREC run from retrieval results as JSON, in either layout, in the same order.

    Evaluators of runs sort by score, in single precision.
    """
    check_output(request.output, [request.input])
    questions = lines = rescored = 0
    with atomic_write(request.output) as file:
        for qid, group in groupby(read_dpr_json(request.input), key=lambda hit: hit.query_id):
            hits = list(group)
            compared = np.array([round(hit.score, 6) for hit in hits], dtype=np.float32)
            rescored += _write_hits(file, qid, [(hit.doc_id, hit.score) for hit in hits], compared)
            questions, lines = questions + 1, lines + len(hits)
        if not questions:
            raise TourError(f"{request.input} holds no hits.")
    if rescored:
        log.warning(
            "%s: %d of %d questions are scored by rank, because their scores do not give the order",
            *(request.input, rescored, questions),
        )
    return _Summary(Path(request.output), {"questions": questions, "hits": lines})


def _write_hits(file: IO[str], qid: str, hits: Sequence[tuple[str, float]], compared: Iterable[float]) -> bool:
    """Write the lines of a query; where `compared` does not decrease, hits are scored n, ..., 2, 1."""
    rescored = any(after >= before for before, after in pairwise(compared))
    for rank, (docid, score) in enumerate(hits, start=1):
        file.write(f"{qid} Q0 {docid} {rank} {float(len(hits) + 1 - rank) if rescored else score!r} {_TAG}\n")
    return rescored


def _run_to_requests(request: _RequestsRequest) -> _Summary:
    """Requests of rank_llm (JSON lines) from a TREC run, its topics and its corpus."""
    check_output(request.output, [request.run, request.topics, request.corpus])
    texts, rankings = open_texts(request.corpus), read_rankings(request.run)
    queries = lines = 0
    with atomic_write(request.output) as file:
        for qid, query in read_topics(request.topics):
            if not (found := rankings.get(str(qid), [])[: request.hits]):
                continue
            query_fields = {"text": text_of(query, str(qid)), "qid": str(qid)}
            candidates = [
                {"docid": hit.doc_id, "score": hit.score, "doc": _document(texts[hit.doc_id])} for hit in found
            ]
            file.write(_json_line({"query": query_fields, "candidates": candidates}))
            queries, lines = queries + 1, lines + len(found)
        if not queries:
            raise TourError(f"{request.run} has hits for none of the topics in {request.topics}; give its topics.")
    return _Summary(Path(request.output), {"queries": queries, "candidates": lines})


def _document(passage: str) -> dict[str, str]:
    title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
    return {"title": title, "text": text} if title else {"text": text}


def _json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _requests_to_lists(request: _FileRequest) -> _Summary:
    """A folder with run, queries and corpus, for search --run, from requests of rank_llm."""
    folder, seen, queries, lines = Path(request.output), set[str](), 0, 0
    paths = [folder / name for name in _LISTS]
    for path in paths:
        check_output(path, [request.input])
    with atomic_write(paths[0]) as run_file, atomic_write(paths[1]) as query_file, atomic_write(paths[2]) as corpus:
        for line in read_lines(request.input):
            record = line.json_object()
            try:
                qid, text = str(record["query"]["qid"]), record["query"]["text"]
                hits = [(str(one["docid"]), float(one["score"])) for one in record["candidates"]]
                found = [one["doc"] for one in record["candidates"]]
                documents = [(str(doc.get("title") or ""), first_field(doc, _TEXTS)) for doc in found]
            except (KeyError, TypeError, ValueError, AttributeError):
                line.refuse("is not a request of rank_llm: expected `query` with qid and text, and `candidates`")
            for name in (qid, *(docid for docid, _ in hits)):
                if not is_column(name):
                    line.refuse(f"has the id {name!r:.100}, which no run file can have")
            query_file.write(_json_line({"_id": qid, "text": text}))
            _write_hits(run_file, qid, hits, [score for _, score in hits])
            for (docid, _), (title, content) in zip(hits, documents, strict=True):
                if docid not in seen:
                    corpus.write(_json_line({"_id": docid, "title": title, "text": content}))
                    seen.add(docid)
            queries, lines = queries + 1, lines + len(hits)
    return _Summary(folder, {"queries": queries, "candidates": lines, "documents": len(seen)})


def _split_by_overlap(request: _SplitsRequest) -> _Summary:
    """Splits of test questions by what they share with training questions, for compare --splits.

    Texts are equal if they are the same after SQuAD's normalisation. `question_overlap`: the question is a training
    question. `answer_overlap_only`: it is not, but one of its answers answers a training question. `no_overlap`:
    neither. The published annotations, made by people, also count paraphrases as the same question.
    """
    check_output(request.output, [request.topics, *request.train])
    training = [question for path in request.train for question in read_questions(path)]
    # "The" and "A" both become empty, but have nothing in common.
    texts = {normalise(question.text) for question in training} - {""}
    answers = {normalise(answer) for question in training for answer in question.answers} - {""}
    splits = {}
    for question in read_questions(request.topics):
        if normalise(question.text) in texts:
            splits[question.qid] = "question_overlap"
        elif answers.isdisjoint(map(normalise, question.answers)):
            splits[question.qid] = "no_overlap"
        else:
            splits[question.qid] = "answer_overlap_only"
    with atomic_write(request.output) as file:
        file.write("".join(f"{qid}\t{split}\n" for qid, split in splits.items()))
    counts = {"questions": len(splits), "training questions": len(training)}
    return _Summary(Path(request.output), counts | dict(sorted(Counter(splits.values()).items())))


EXAMPLE = """examples:
  python -m tour_pyserini.convert qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  python -m tour_pyserini.convert json --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --run runs/nq.hard.trec --output nq.hard.json
  python -m pyserini.eval.evaluate_dpr_retrieval --retrieval nq.hard.json --topk 1 20 100
  python -m tour_pyserini.convert run --input nq.hard.json --output runs/nq.hard.trec
  python -m tour_pyserini.convert requests --topics nq.tsv --corpus corpus.jsonl --run bm25.trec --output nq.jsonl
  python -m tour_pyserini.convert lists --input nq.jsonl --output nq
  python -m tour_pyserini.convert splits --topics nq/test.jsonl --train nq/dev.jsonl --output nq.splits.tsv"""

_KINDS: Kinds = {
    "qrels": (_FileRequest, _qrels),
    "json": (_JsonRequest, _run_to_json),
    "run": (_FileRequest, _json_to_run),
    "requests": (_RequestsRequest, _run_to_requests),
    "lists": (_FileRequest, _requests_to_lists),
    "splits": (_SplitsRequest, _split_by_overlap),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request, function = parse_kind("convert", _KINDS, argv, description=__doc__, epilog=EXAMPLE)
    done = function(request)
    sys.stderr.write(f"{done.output}: {', '.join(f'{count} {what}' for what, count in done.counts.items())}\n")


if __name__ == "__main__":
    run(main)
