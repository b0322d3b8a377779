"""Judge passages by whether their text contains an answer, as DPR and Pyserini do, and write TREC qrels.

With --runs, what the runs retrieved is judged: 1 with an answer, 0 without. Give all runs that are to be compared,
since a passage that is not judged counts as one without an answer. Without --runs the whole corpus is searched, and
only passages with an answer are written.

Every question of the topics has at least one line (`no-passage` with grade 0 where it has no other), so that
ir_measures averages over all questions: Success@k is the top-k retrieval accuracy of open-domain question answering.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tour_pyserini.cli.answer_flags import add_answer_flags, regex_from, shown
from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help
from tour_pyserini.data.runs import read_retrieved
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_qrels import corpus_qrels, passages_with_answers, retrieved_qrels
from tour_pyserini.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from ir_measures import Qrel

EXAMPLE = """example:
  python -m tour_pyserini.answers --topics topics.dpr.nq.test.txt --corpus wikipedia/corpus.jsonl \\
      --runs runs/nq.dense.trec runs/nq.hard.trec --output qrels/nq.answers.trec
  ir_measures qrels/nq.answers.trec runs/nq.hard.trec Success@1 Success@20 Success@100"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    if args.hits is not None and not args.runs:
        raise TourError("--hits limits what runs retrieved; give --runs, or leave it out.")
    started = time.perf_counter()
    check_output(args.output, [args.topics, args.corpus, *(args.runs or ())])
    regex = regex_from(args)
    questions = read_questions(args.topics)
    lines, answered = 0, set()
    with atomic_write(args.output) as file:
        for qrel in _qrels(args, questions, regex):
            file.write(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n")
            lines += 1
            if qrel.relevance:
                answered.add(qrel.query_id)
    sys.stderr.write(
        f"{args.output}: {lines} judgements of {len(questions)} questions, {len(answered)} of them with an answer "
        f"({'regular expressions' if regex else 'plain answers'}); {time.perf_counter() - started:.1f} s\n"
    )


def _qrels(args: argparse.Namespace, questions: Sequence[Question], regex: bool) -> Iterator["Qrel"]:
    # Runs first: a mistake in one of them shows before a large corpus is opened.
    retrieved = _retrieved(args, questions)
    texts = open_texts(args.corpus)
    if not args.runs:
        return corpus_qrels(questions, texts, regex=regex, processes=args.processes, watch=shown)
    found = passages_with_answers(questions, retrieved, texts, regex=regex, processes=args.processes, watch=shown)
    return retrieved_qrels(questions, retrieved, found)


def _retrieved(args: argparse.Namespace, questions: Sequence[Question]) -> Mapping[str, list[str]]:
    """The docids that any of the runs has, by question, each once."""
    ids = [question.qid for question in questions]
    docids: dict[str, dict[str, None]] = {qid: {} for qid in ids}
    for path in args.runs or ():
        for qid, hits in read_retrieved(path, ids, hits=args.hits).items():
            docids[qid].update((hit.doc_id, None) for hit in hits)
    return {qid: list(each) for qid, each in docids.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.answers", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    add_answer_flags(parser)
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="TREC runs to judge; the whole corpus if not given")
    parser.add_argument("--output", required=True, metavar="QRELS", help="the TREC qrels to write")
    return parser


if __name__ == "__main__":
    run(main)
