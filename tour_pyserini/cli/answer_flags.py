"""Flags of the commands that match passages with answers."""

import argparse
import logging
import os
from collections.abc import Iterable

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import has_patterns
from tour_pyserini.evaluation.answer_qrels import Candidate

log = logging.getLogger(__name__)


def add_answer_flags(parser: argparse._ActionsContainer, *, required: bool = True) -> None:
    """Questions, passages, and how they are matched."""
    parser.add_argument(
        "--topics",
        required=required,
        metavar="TOPICS",
        help="questions with answers: DPR's .tsv, .txt or .json, JSON lines, SQuAD's .json, or a name of Pyserini's",
    )
    parser.add_argument(
        "--corpus", required=required, metavar="CORPUS", help="passages: BEIR corpus.jsonl or Lucene index"
    )
    parser.add_argument(
        "--regex",
        choices=["auto", "on", "off"],
        default="auto",
        help="whether answers are regular expressions; auto: where the topics are named curated or trec-test",
    )
    parser.add_argument("--hits", type=int, metavar="N", help="use the N best hits of each question; all by default")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"
    )


def regex_from(args: argparse.Namespace) -> bool:
    """Whether answers are regular expressions; the numbers are checked on the way."""
    for name in ("processes", "hits"):
        if (number := getattr(args, name)) is not None and number < 1:
            raise TourError(f"--{name} must be at least 1, not {number}.")
    if args.regex != "auto":
        return args.regex == "on"
    chosen = has_patterns(args.topics)
    if chosen:
        log.warning(
            "the answers of %s are read as regular expressions, by its name; --regex off reads them as text",
            args.topics,
        )
    return chosen


def shown(candidates: Iterable[Candidate], total: int) -> Iterable[Candidate]:
    """The passages, with a bar that counts them on a terminal and nowhere else."""
    from tqdm import tqdm

    return tqdm(candidates, total=total, unit="passage", desc="matching", disable=None)
