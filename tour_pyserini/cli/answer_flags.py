"""Flags of the commands that match passages with answers."""

import argparse
import os

from tour_pyserini.pipeline.judging import REGEX


def add_answer_flags(parser: argparse._ActionsContainer, *, required: bool = True) -> None:
    """Add the flags for questions, passages, and how answers are matched with passages."""
    parser.add_argument(
        "--topics",
        required=required,
        metavar="TOPICS",
        help="questions with answers: DPR's .tsv, .txt or .json, JSON lines, SQuAD's .json, or a Pyserini name",
    )
    parser.add_argument(
        "--corpus", required=required, metavar="CORPUS", help="passages: BEIR corpus.jsonl or Lucene index"
    )
    parser.add_argument(
        "--regex",
        choices=REGEX,
        default="auto",
        help="whether answers are regular expressions; auto: yes if the topics are named curated or trec-test",
    )
    parser.add_argument(
        "--hits", type=int, metavar="N", help="use only the N best hits of each question (default: all)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one per core)",
    )
