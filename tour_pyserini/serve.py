# PYTHON_ARGCOMPLETE_OK
"""Serve searches of an index over HTTP."""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.serve_flags import serve_request
from tour_pyserini.service.serving import serve


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    serve(serve_request(argv), tell=_tell)


def _tell(address: str) -> None:
    """Write where the service is, as soon as it answers."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(main)
