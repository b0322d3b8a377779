# PYTHON_ARGCOMPLETE_OK
"""Search a small embedded collection in six ways and compare.

It builds the index, searches with six methods, measures the runs, and shows the path of one query.
Runs are written to runs/, judgements to qrels/.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.command import CommandParser, run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data import demo_collection
from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.query_path import QueryPath, write_path_page
from tour_pyserini.evaluation.tables import FORMATS, means_table
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

# All but the first have at most 30 labels per query.
CONFIGS = {
    "dense": TourConfig("dense"),
    "rerank": TourConfig("rerank", depth=30),
    "mixed": TourConfig.preset("mixed"),
    "hard": TourConfig.preset("tour-hard"),
    "soft": TourConfig.preset("tour-soft"),
    "tour": TourConfig(),
}
QRELS = "qrels/demo.trec"
RUN, TRACE, PAGE = "runs/demo.tour.trec", "runs/demo.tour.trace.jsonl", "runs/demo.path.html"
MEASURES = ("nDCG@10", "Success@1", "R@10", "R@100")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    CommandParser("demo", description=__doc__).parse_args(argv)
    write_qrels(read_qrels(demo_collection.QRELS), QRELS)
    opener, runs = Opener(), []
    for name, config in CONFIGS.items():
        request = SearchRequest(
            topics="demo",
            config=config,
            output=f"runs/demo.{name}.trec",
            hits=100,
            trace=TRACE if name == "tour" else None,
        )
        summary = search(request, opener=opener, progress=True)
        sys.stderr.write(f"{summary.output}: {summary.costs}\n")
        runs.append(summary.output)
    sys.stdout.write("\n" + FORMATS["text"](means_table(compare(QRELS, runs, MEASURES))) + "\n")
    path = QueryPath.read(TRACE, demo_collection.QUERIES, demo_collection.CORPUS, qrels=QRELS, run=RUN)
    write_path_page(PAGE, path)
    sys.stdout.write(f"\nThe path of one query as a page: {PAGE}\n")


if __name__ == "__main__":
    run(main)
