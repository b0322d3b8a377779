"""Show one query's path as a self-contained HTML page: `python -m tour_pyserini.page`.

The lists of each round stand side by side, with scores, what was new and what is relevant. With a trace that holds
query vectors (search --trace-vectors) and an index with exact vectors, the page also shows how the query moved.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help, positive
from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.path_page import as_page, as_svg, projected
from tour_pyserini.evaluation.query_path import PathRound, most_improved_query, read_paths
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.support.files import atomic_write, check_output

EXAMPLE = """example:
  python -m tour_pyserini.search --topics demo --method hard --trace trace.jsonl --trace-vectors
  python -m tour_pyserini.page --trace trace.jsonl --topics demo --output page.html"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    if args.topics == "demo":
        _use_demo(args)
    if not args.corpus:
        raise TourError("--corpus is missing: the page shows the passages.")
    check_output(args.output, [args.trace, args.topics, args.corpus, args.qrels])
    from tour_pyserini.data.texts import open_texts
    from tour_pyserini.data.topics import read_topics

    relevant: dict[str, set[str]] = {}
    for judgement in read_qrels(args.qrels) if args.qrels else ():
        if judgement.relevance > 0:
            relevant.setdefault(judgement.query_id, set()).add(judgement.doc_id)
    paths = read_paths(args.trace)
    if not paths:
        raise TourError(f"{args.trace} is empty; make it with python -m tour_pyserini.search --trace.")
    qid = args.topic or most_improved_query(paths, relevant)
    if qid not in paths:
        raise TourError(f"{args.trace} has no query {qid!r}; choose another --topic.")
    queries = {str(each): text for each, text in read_topics(args.topics, only={qid})}
    if qid not in queries:
        raise TourError(f"{args.topics} has no query {qid!r}, which the trace has; give the topics that were searched.")
    path, judged = paths[qid], relevant.get(qid, set())
    svg = _map(path, judged, args.index)
    page = as_page(path, queries[qid], open_texts(args.corpus), judged, shown=args.shown, svg=svg)
    with atomic_write(args.output) as file:
        file.write(page)
    sys.stderr.write(f"{args.output}: query {qid}, {len(path)} retrievals{'' if svg else ', no map'}\n")


def _map(path: Sequence[PathRound], relevant: set[str], index: str | None) -> str | None:
    """The map, where the trace has query vectors and the index those of the candidates."""
    vectors = [stop.query for stop in path if stop.query is not None]
    if index is None or len(vectors) != len(path):
        return None
    queries = np.array(vectors)
    docids = list(dict.fromkeys(docid for stop in path for docid in stop.docids))
    stored = EncodedCorpus.open(Path(index), docids=docids, dimension=queries.shape[1])
    return as_svg(projected(queries, stored(np.arange(len(docids)))), path, docids, relevant)


def _use_demo(args: argparse.Namespace) -> None:
    from tour_pyserini.demo import collection

    args.topics = str(collection.QUERIES)
    args.corpus = args.corpus or str(collection.CORPUS)
    args.qrels = args.qrels or str(collection.QRELS)
    args.index = args.index or str(collection.demo_index())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.page", description=__doc__, epilog=EXAMPLE, formatter_class=Help
    )
    add = parser.add_argument
    add("--trace", required=True, metavar="FILE", help="what search --trace wrote")
    add("--topics", required=True, help="the topics that were searched, or `demo`")
    add("--corpus", metavar="FILE", help="passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name")
    add("--qrels", metavar="FILE", help="judgements, to mark what is relevant")
    add("--index", metavar="DIR", help="an index with exact vectors, for the map of the query's movement")
    add("--topic", metavar="ID", help="the query (default: the one whose relevant passage climbed most)")
    add("--shown", type=positive, default=10, metavar="N", help="candidates shown per round")
    add("--output", required=True, metavar="FILE", help="the page")
    return parser


if __name__ == "__main__":
    run(main)
