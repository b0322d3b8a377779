# PYTHON_ARGCOMPLETE_OK
"""Show the path of one query as a self-contained HTML page.

The lists of each round and the final list (--run) stand side by side, with scores, what was new and what is relevant.
With a trace that holds query vectors (search --trace-vectors) and an index with exact vectors, the page also shows how
the query moved.
"""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import positive
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.path_showing import PageRequest, write_page

EXAMPLE = """example:
  python -m tour_pyserini.search --topics demo --output demo.trec --trace trace.jsonl --trace-vectors
  python -m tour_pyserini.page --trace trace.jsonl --run demo.trec --topics demo --output page.html"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    done = write_page(PageRequest(**vars(_parser().parse_args(argv))))
    sys.stderr.write(f"{done.output}: query {done.qid}, {done.rounds} retrievals{'' if done.has_map else ', no map'}\n")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("page", description=__doc__, epilog=EXAMPLE)
    add = parser.add_argument
    add("--trace", required=True, metavar="FILE", help="what search --trace wrote")
    add("--topics", required=True, help="the topics that were searched, or `demo`")
    add("--corpus", metavar="FILE", help="passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name")
    add("--qrels", metavar="FILE", help="judgements, to mark what is relevant")
    add("--index", metavar="DIR", help="an index with exact vectors, for the map of the query's movement")
    add("--run", metavar="FILE", help="the run of the same search, for the final list")
    add("--topic", metavar="ID", help="the query (default: the one whose relevant passage climbed most)")
    add("--shown", type=positive, default=10, metavar="N", help="candidates shown per round")
    add("--output", required=True, metavar="FILE", help="the page")
    return parser


if __name__ == "__main__":
    run(main)
