# PYTHON_ARGCOMPLETE_OK
"""Show the path of one query as a self-contained HTML page.

The lists of each round and the final list (--run) stand side by side, with scores, what was new and what is relevant.
With a trace that holds query vectors (search --trace-vectors) and an index with exact vectors, the page also shows how
the query moved.
"""

import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, replace

from tour_pyserini.command import run
from tour_pyserini.data import demo_collection
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.query_path import QueryPath, write_path_page
from tour_pyserini.flags import Request, option, request_parser
from tour_pyserini.index import demo_index
from tour_pyserini.support.files import check_output


@dataclass(frozen=True, kw_only=True)
class PageRequest(Request):
    """Show a query path; the fields are the flags of `python -m tour_pyserini.page`.

    Attributes:
        trace: the file that `search --trace` wrote.
        topics: the topics that were searched, or `demo`.
        output: the page.
        corpus: the passages.
        qrels: judgements, to mark relevant passages.
        index: an index with exact vectors, for the map of the query's movement.
        run: the run of the same search, for the final list.
        topic: the query's id; if not given, the query whose relevant passage rose most.
        shown: candidates shown per round.
    """

    trace: str = option(MISSING, "what search --trace wrote")
    topics: str = option(MISSING, "the topics that were searched, or `demo`")
    output: str = option(MISSING, "the page")
    corpus: str | None = option(None, "passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name")
    qrels: str | None = option(None, "judgements, to mark what is relevant")
    index: str | None = option(None, "an index with exact vectors, for the map of the query's movement")
    run: str | None = option(None, "the run of the same search, for the final list")
    topic: str | None = option(None, "the query (default: the one whose relevant passage climbed most)")
    shown: int = option(10, "candidates shown per round", count=True)


def write_page(request: PageRequest) -> QueryPath:
    """Write one query path as a self-contained HTML page; returns what it shows."""
    if request.topics == "demo":
        request = replace(
            request,
            topics=str(demo_collection.QUERIES),
            corpus=request.corpus or str(demo_collection.CORPUS),
            qrels=request.qrels or str(demo_collection.QRELS),
            index=request.index or str(demo_index()),
        )
    if not request.corpus:
        raise TourError("--corpus is missing: the page shows the passages.")
    check_output(request.output, [request.trace, request.topics, request.corpus, request.qrels, request.run])
    names = ("trace", "topics", "corpus", "qrels", "run", "index", "topic")
    path = QueryPath.read(**{name: getattr(request, name) for name in names})
    write_path_page(request.output, path, shown=request.shown)
    return path


EXAMPLE = """example:
  python -m tour_pyserini.search --topics demo --output demo.trec --trace trace.jsonl --trace-vectors
  python -m tour_pyserini.page --trace trace.jsonl --run demo.trec --topics demo --output page.html"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("page", PageRequest, description=str(__doc__), epilog=EXAMPLE)
    request = PageRequest.from_flags(vars(parser.parse_args(argv)))
    path = write_page(request)
    told = f"query {path.qid}, {len(path.rounds)} retrievals{'' if path.vectors else ', no map'}"
    sys.stderr.write(f"{request.output}: {told}\n")


if __name__ == "__main__":
    run(main)
