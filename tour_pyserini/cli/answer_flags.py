"""Flags of the commands that match passages with answers."""

import argparse
import os

from tour_pyserini.pipeline.judging import REGEX


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
        choices=REGEX,
        default="auto",
        help="whether answers are regular expressions; auto: if the topics are named curated or trec-test",
    )
    parser.add_argument("--hits", type=int, metavar="N", help="use the N best hits of each question; all by default")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"
    )
