"""The flags of the search command."""

import argparse
from collections.abc import Sequence

from tour_pyserini.cli.flags import add_config_flags, request_parser
from tour_pyserini.pipeline.search_request import SearchRequest

DESCRIPTION = """\
Search topics and write a run, with Pyserini's own flags and one for each setting of TouR. Labels are kept in the score
cache, so the same command continues an interrupted search without paying for them again."""

EXAMPLES = """examples:
  python -m tour_pyserini.search --topics demo
  python -m tour_pyserini.search --topics scifact/queries.jsonl --qrels scifact/qrels/test.tsv \\
      --index indexes/scifact --corpus scifact/corpus.jsonl --output runs/scifact.trec
  python -m tour_pyserini.search ... --method rerank --depth 40
  python -m tour_pyserini.search ... --preset paper-passages-dpr --reranker cross-encoder/ms-marco-MiniLM-L-6-v2"""


def search_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.search`."""
    parser = request_parser("search", SearchRequest, description=DESCRIPTION, epilog=EXAMPLES)
    add_config_flags(parser.add_argument_group("settings of TouR"))
    return parser


def search_request(argv: Sequence[str] | None) -> SearchRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    return SearchRequest.from_flags(vars(search_parser().parse_args(argv)))
