# PYTHON_ARGCOMPLETE_OK
"""Serve searches of an index over HTTP."""

import argparse
import sys
from collections.abc import Sequence

from tour_pyserini.command import run
from tour_pyserini.flags import add_config_flags, request_parser
from tour_pyserini.service.serving import ServeRequest, serve

DESCRIPTION = """\
Serve searches of an index over HTTP. Searches that come at the same time share the calls of the re-ranker; labels are
kept in the score cache, as always. The address is printed once the service is ready. Ctrl-C or SIGTERM ends it after
the searches that run."""

EXAMPLES = """examples:
  python -m tour_pyserini.serve --topics demo
  python -m tour_pyserini.serve --index indexes/scifact --corpus scifact/corpus.jsonl --port 9000 --budget 30
  curl -s http://127.0.0.1:8080/search -H 'Content-Type: application/json' -d '{"query": "...", "deadline_ms": 300}'"""


def serve_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.serve`."""
    parser = request_parser("serve", ServeRequest, description=DESCRIPTION, epilog=EXAMPLES)
    add_config_flags(parser.add_argument_group("settings of TouR, where a request gives none"))
    return parser


def serve_request(argv: Sequence[str] | None) -> ServeRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    return ServeRequest.from_flags(vars(serve_parser().parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    serve(serve_request(argv), tell=_tell)


def _tell(address: str) -> None:
    """Write where the service is, as soon as it answers."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(main)
