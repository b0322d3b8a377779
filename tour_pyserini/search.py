# PYTHON_ARGCOMPLETE_OK
"""Search topics and write a run."""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.search_flags import search_request
from tour_pyserini.pipeline.searching import search


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    summary = search(search_request(argv), progress=True)
    sys.stderr.write(f"{summary.output}: {summary.costs}\n")


if __name__ == "__main__":
    run(main)
