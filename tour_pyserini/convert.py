# PYTHON_ARGCOMPLETE_OK
"""Convert judgements, runs, results and questions."""

import dataclasses
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.answers import AnswerRequest, uses_patterns
from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.data.input_files import first_field, is_column, read_lines
from tour_pyserini.data.json_results import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import Passage, open_texts
from tour_pyserini.data.topics import read_questions, read_topics
from tour_pyserini.encoders.encoder import text_of
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import passages_with_answers
from tour_pyserini.evaluation.answer_measures import normalise
from tour_pyserini.flags import add_request_flags, option, positive
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

TAG = "tour_pyserini"
REQUEST_FILES = ("run.trec", "queries.jsonl", "corpus.jsonl")
"""What `convert lists` writes into its folder."""
TEXTS = ("text", "contents", "content", "segment", "passage", "body")
"""Where a candidate of rank_llm has its text."""


@dataclass(frozen=True, kw_only=True)
class JsonRequest(AnswerRequest):
    """Write a run as JSON with passages and answers; the fields are flags of `python -m tour_pyserini.convert json`.

    Attributes:
        run: the TREC run.
        topics: questions with answers.
        corpus: the passages.
        output: the JSON file.
        layout: `pyserini` or `dpr`.
        hits, regex, processes: as in `JudgeRequest`.
    """

    run: str = option(dataclasses.MISSING, "the TREC run")
    layout: str = option("pyserini", "whose JSON is written", choices=LAYOUTS)


class _ConversionSummary(NamedTuple):
    """The file that was written, and what it holds: counts by what was counted."""

    output: Path
    counts: Mapping[str, int]


def convert_qrels(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Write judgements, in BEIR's or TREC's format, as TREC qrels."""
    qrels = read_qrels(input)
    write_qrels(qrels, output)
    counts = {"judgements": len(qrels), "queries": len({qrel.query_id for qrel in qrels})}
    return _ConversionSummary(Path(output), counts)


def run_to_json(request: JsonRequest, *, progress: bool = False) -> _ConversionSummary:
    """Write a run as JSON: every question, its passages with title and text, and which of them contain an answer.

    Hits are in the order in which ir_measures and trec_eval evaluate them.
    """
    check_output(request.output, [request.run, request.topics, request.corpus])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    retrieved = read_rankings(request.run, (question.qid for question in questions), hits=request.hits)
    texts = open_texts(request.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    processes = request.processes
    answering = passages_with_answers(questions, texts, docids, regex=regex, processes=processes, progress=progress)
    found = {qid: set(passages) for qid, passages in answering.items()}
    write_dpr_json(request.output, questions, retrieved, texts, found, layout=request.layout)
    counts = {"questions": len(questions), "with an answer": sum(map(bool, found.values()))}
    return _ConversionSummary(Path(request.output), counts | {"hits": sum(map(len, docids.values()))})


def json_to_run(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Write retrieval results, in either layout, as a TREC run in the same order.

    Evaluators of runs sort by score: where a question's scores do not decrease strictly (six decimals, single
    precision), its hits are scored n, ..., 2, 1.
    """
    check_output(output, [input])
    questions = lines = rescored = 0
    with atomic_write(output) as file:
        for qid, group in groupby(read_dpr_json(input), key=lambda hit: hit.query_id):
            hits = list(group)
            scores = [hit.score for hit in hits]
            if (np.diff(np.array([round(score, 6) for score in scores], dtype=np.float32)) >= 0).any():
                scores, rescored = [float(rank) for rank in range(len(hits), 0, -1)], rescored + 1
            for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), start=1):
                file.write(f"{qid} Q0 {hit.doc_id} {rank} {score!r} {TAG}\n")
            questions, lines = questions + 1, lines + len(hits)
        if not questions:
            raise TourError(f"{input} holds no hits.")
    if rescored:
        log.warning(
            "%s: %d of %d questions are scored by rank, because their scores do not give the order",
            *(input, rescored, questions),
        )
    return _ConversionSummary(Path(output), {"questions": questions, "hits": lines})


def run_to_requests(
    run: str, topics: str, corpus: str, output: str | os.PathLike[str], *, hits: int = 100
) -> _ConversionSummary:
    """Write a run as rank_llm's requests: for each topic a JSON line with its query and candidates, texts included."""
    check_output(output, [run, topics, corpus])
    texts, rankings = open_texts(corpus), read_rankings(run)
    queries = lines = 0
    with atomic_write(output) as file:
        for qid, query in read_topics(topics):
            if not (found := rankings.get(str(qid), [])[:hits]):
                continue
            request = {
                "query": {"text": text_of(query, str(qid)), "qid": str(qid)},
                "candidates": [
                    {"docid": hit.doc_id, "score": hit.score, "doc": _document(texts[hit.doc_id])} for hit in found
                ],
            }
            file.write(json.dumps(request, ensure_ascii=False) + "\n")
            queries, lines = queries + 1, lines + len(found)
        if not queries:
            raise TourError(f"{run} has hits for none of the topics in {topics}; give the run's topics.")
    return _ConversionSummary(Path(output), {"queries": queries, "candidates": lines})


def requests_to_run(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Write what `search --run` needs of rank_llm's requests, into a folder: run.trec, queries.jsonl and corpus.jsonl.

    Candidates whose scores do not give their order are scored n, ..., 2, 1.
    """
    folder, seen, queries, lines = Path(output), set[str](), 0, 0
    for name in REQUEST_FILES:
        check_output(folder / name, [input])
    with (
        atomic_write(folder / REQUEST_FILES[0]) as run_file,
        atomic_write(folder / REQUEST_FILES[1]) as query_file,
        atomic_write(folder / REQUEST_FILES[2]) as corpus_file,
    ):
        for line in read_lines(input):
            record = line.json_object()
            try:
                qid, text = str(record["query"]["qid"]), record["query"]["text"]
                found = [(str(one["docid"]), float(one["score"]), one["doc"]) for one in record["candidates"]]
                documents = [(docid, str(doc.get("title") or ""), first_field(doc, TEXTS)) for docid, _, doc in found]
            except (KeyError, TypeError, ValueError, AttributeError):
                line.refuse("is not a request of rank_llm: expected `query` with qid and text, and `candidates`")
            for name in (qid, *(docid for docid, *_ in found)):
                if not is_column(name):
                    line.refuse(f"has the id {name!r:.100}, which no run file can have")
            query_file.write(json.dumps({"_id": qid, "text": text}, ensure_ascii=False) + "\n")
            scores = [score for _, score, _ in found]
            if any(after >= before for before, after in pairwise(scores)):
                scores = [float(rank) for rank in range(len(found), 0, -1)]
            for rank, (docid, score) in enumerate(zip([docid for docid, *_ in found], scores, strict=True), start=1):
                run_file.write(f"{qid} Q0 {docid} {rank} {score!r} {TAG}\n")
            for docid, title, text in documents:
                if docid not in seen:
                    corpus_file.write(
                        json.dumps({"_id": docid, "title": title, "text": text}, ensure_ascii=False) + "\n"
                    )
                    seen.add(docid)
            queries, lines = queries + 1, lines + len(found)
    return _ConversionSummary(folder, {"queries": queries, "candidates": lines, "documents": len(seen)})


def _document(passage: str) -> dict[str, str]:
    title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
    return {"title": title, "text": text} if title else {"text": text}


def split_by_overlap(topics: str, train: Sequence[str], output: str | os.PathLike[str]) -> _ConversionSummary:
    """Put test questions into splits by what they share with training questions.

    Texts are equal if they are the same after SQuAD's normalisation. `question_overlap`: the question is a training
    question. `answer_overlap_only`: it is not, but one of its answers answers a training question. `no_overlap`:
    neither. The published annotations, made by people, also count paraphrases as the same question.

    Args:
        topics: test questions with answers, in any format of topics.
        train: files of training questions with answers.
        output: a file of lines `qid<TAB>split`, for `CompareRequest(splits=...)`.
    """
    check_output(output, [topics, *train])
    training = [question for path in train for question in read_questions(path)]
    # "The" and "A" both become empty, but have nothing in common.
    texts = {normalise(question.text) for question in training} - {""}
    answers = {normalise(answer) for question in training for answer in question.answers} - {""}
    splits = {}
    for question in read_questions(topics):
        if normalise(question.text) in texts:
            splits[question.qid] = "question_overlap"
        elif answers.isdisjoint(map(normalise, question.answers)):
            splits[question.qid] = "no_overlap"
        else:
            splits[question.qid] = "answer_overlap_only"
    with atomic_write(output) as file:
        file.write("".join(f"{qid}\t{split}\n" for qid, split in splits.items()))
    counts = {"questions": len(splits), "training questions": len(training)}
    return _ConversionSummary(Path(output), counts | dict(sorted(Counter(splits.values()).items())))


EXAMPLE = """examples:
  python -m tour_pyserini.convert qrels --input scifact/qrels/test.tsv --output qrels/scifact.trec
  python -m tour_pyserini.convert json --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --run runs/nq.hard.trec --output nq.hard.json
  python -m pyserini.eval.evaluate_dpr_retrieval --retrieval nq.hard.json --topk 1 20 100
  python -m tour_pyserini.convert run --input nq.hard.json --output runs/nq.hard.trec
  python -m tour_pyserini.convert requests --topics nq.tsv --corpus corpus.jsonl --run bm25.trec --output nq.jsonl
  python -m tour_pyserini.convert lists --input nq.jsonl --output nq
  python -m tour_pyserini.convert splits --topics nq/test.jsonl --train nq/dev.jsonl --output nq.splits.tsv"""

_KINDS = {
    "qrels": "TREC qrels from judgements, BEIR's or TREC's",
    "json": "retrieval results as JSON, in Pyserini's layout or DPR's, from a TREC run: passages with answers",
    "run": "a TREC run from retrieval results as JSON, in either layout, in the same order",
    "requests": "requests of rank_llm (JSON lines) from a TREC run, its topics and its corpus",
    "lists": "a folder with run, queries and corpus, for search --run, from requests of rank_llm",
    "splits": "splits of test questions by what they share with training questions, for compare --splits",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = vars(_parser().parse_args(argv))
    kind = args.pop("kind")
    if kind == "json":
        done = run_to_json(JsonRequest.from_flags(args), progress=True)
    else:
        functions: dict[str, Callable[..., _ConversionSummary]] = {
            **{"qrels": convert_qrels, "run": json_to_run, "splits": split_by_overlap},
            **{"requests": run_to_requests, "lists": requests_to_run},
        }
        done = functions[kind](**args)
    sys.stderr.write(f"{done.output}: {', '.join(f'{count} {what}' for what, count in done.counts.items())}\n")


def _parser() -> CommandParser:
    parser = CommandParser("convert", description=__doc__, epilog=EXAMPLE)
    kinds = parser.add_subparsers(dest="kind", required=True, parser_class=FlagParser)
    add = {name: kinds.add_parser(name, help=text, description=text) for name, text in _KINDS.items()}
    inputs = {"qrels": "judgements: a BEIR .tsv file or TREC qrels", "run": "the JSON", "lists": "the requests"}
    for name, text in inputs.items():
        add[name].add_argument("--input", required=True, metavar="FILE", help=text)
    add_request_flags(add["json"], JsonRequest)
    for name, text in (("run", "the TREC run"), ("topics", "its topics, in any format"), ("corpus", "the passages")):
        add["requests"].add_argument(f"--{name}", required=True, metavar="FILE", help=text)
    add["requests"].add_argument("--hits", type=positive, default=100, metavar="N", help="most candidates of a query")
    add["splits"].add_argument("--topics", required=True, help="test questions with answers, in any format of topics")
    add["splits"].add_argument(
        "--train", nargs="+", required=True, metavar="FILE", help="training questions with answers, in any format"
    )
    for name in ("qrels", "run", "requests", "lists", "splits"):
        what = "the folder" if name == "lists" else "the file"
        add[name].add_argument("--output", required=True, metavar="FILE", help=f"{what} to write")
    return parser


if __name__ == "__main__":
    run(main)
