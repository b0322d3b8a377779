"""The flags of the index command."""

import argparse
from collections.abc import Sequence

from tour_pyserini.cli.flags import request_parser
from tour_pyserini.pipeline.index_request import IndexRequest

EXAMPLE = """\
example:
  python -m tour_pyserini.index --corpus collections/scifact --encoder default --index indexes/scifact

An interrupted run leaves INDEX.partial, and the same command continues it. INDEX is made when it is complete.
Pyserini reads it too: FaissSearcher("indexes/scifact", query_encoder).
"""


def index_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.index`, with Pyserini's names and defaults of flags."""
    description = "Encode a corpus into a FAISS index that this package and Pyserini search."
    return request_parser("index", IndexRequest, description=description, epilog=EXAMPLE)


def index_request(argv: Sequence[str] | None) -> IndexRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    return IndexRequest.from_flags(vars(index_parser().parse_args(argv)))
