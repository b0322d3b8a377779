# PYTHON_ARGCOMPLETE_OK
"""Measure runs side by side with ir-measures."""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.compare_flags import compare_parser
from tour_pyserini.pipeline.comparing import CompareRequest, compare_runs


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = CompareRequest(**vars(compare_parser().parse_args(argv)))
    report = compare_runs(request)
    if request.output is None:
        sys.stdout.write(report)


if __name__ == "__main__":
    run(main)
