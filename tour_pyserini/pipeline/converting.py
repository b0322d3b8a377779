"""Converting files: runs to retrieval results as JSON and back, and judgements to TREC qrels."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.qrels_file import read_qrels, write_qrels
from tour_pyserini.data.retrieval_json import LAYOUTS, read_dpr_json, write_dpr_json
from tour_pyserini.data.runs import is_strictly_decreasing, read_retrieved, scores_by_rank
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import passages_with_answers
from tour_pyserini.pipeline.judging import check_matching, progress_bar, uses_patterns
from tour_pyserini.pipeline.request import check_names
from tour_pyserini.support.files import atomic_write, check_output

log = logging.getLogger(__name__)

TAG = "tour_pyserini"


@dataclass(frozen=True, kw_only=True)
class JsonRequest:
    """Write a run as JSON with passages and answers; the fields are flags of `python -m tour_pyserini.dpr_json`.

    Attributes:
        run: the TREC run.
        topics: questions with answers.
        corpus: the passages.
        output: the JSON file.
        layout: `pyserini` or `dpr`.
        hits, regex, processes: as in `JudgeRequest`.
    """

    run: str
    topics: str
    corpus: str
    output: str
    layout: str = "pyserini"
    hits: int | None = None
    regex: str = "auto"
    processes: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        check_names(self)
        check_matching(hits=self.hits, processes=self.processes, regex=self.regex)
        if self.layout not in LAYOUTS:
            raise TourError(f"--layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}.")


class ConversionSummary(NamedTuple):
    """What was written: the file, questions, hits, questions with an answer (None: not known), and seconds."""

    output: Path
    questions: int
    hits: int
    answered: int | None
    seconds: float


def run_to_json(request: JsonRequest, *, progress: bool = False) -> ConversionSummary:
    """Write a run as JSON: every question, its passages with title and text, and which of them contain an answer."""
    started = time.perf_counter()
    check_output(request.output, [request.run, request.topics, request.corpus])
    regex = uses_patterns(request.topics, request.regex)
    questions = read_questions(request.topics)
    retrieved = read_retrieved(request.run, (question.qid for question in questions), hits=request.hits)
    texts = open_texts(request.corpus)
    docids = {qid: [hit.doc_id for hit in hits] for qid, hits in retrieved.items()}
    found = passages_with_answers(
        questions, docids, texts, regex=regex, processes=request.processes, watch=progress_bar(progress)
    )
    write_dpr_json(request.output, questions, retrieved, texts, found, layout=request.layout)
    answered = sum(bool(docids) for docids in found.values())
    hits = sum(map(len, docids.values()))
    return ConversionSummary(Path(request.output), len(questions), hits, answered, time.perf_counter() - started)


def json_to_run(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> ConversionSummary:
    """Write retrieval results, in either layout, as a TREC run in the same order."""
    started = time.perf_counter()
    check_output(output, [input])
    questions = lines = rescored = 0
    with atomic_write(output) as file:
        for qid, group in groupby(read_dpr_json(input), key=lambda hit: hit.query_id):
            hits = list(group)
            scores: Sequence[float] = [hit.score for hit in hits]
            if not is_strictly_decreasing(scores):
                scores, rescored = scores_by_rank(len(hits)), rescored + 1
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
    return ConversionSummary(Path(output), questions, lines, None, time.perf_counter() - started)


class QrelsSummary(NamedTuple):
    """What was written: the file, its judgements, and the queries that have judgements."""

    output: Path
    judgements: int
    queries: int


def convert_qrels(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> QrelsSummary:
    """Write judgements, in BEIR's or TREC's format, as TREC qrels."""
    qrels = read_qrels(input)
    write_qrels(qrels, output)
    return QrelsSummary(Path(output), len(qrels), len({qrel.query_id for qrel in qrels}))
