# PYTHON_ARGCOMPLETE_OK
"""Find the scale of similarities of an index, and store it.

The scale says what a unit of similarity is worth in labels. It is found once and stored beside the index; searches
read it. Without it, each query finds its own from its own labels. Needs no relevance judgements and, unless --topics
gives some, no queries.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import request_parser
from tour_pyserini.pipeline.calibrating import CalibrateRequest, calibrate

EXAMPLE = """example:
  python -m tour_pyserini.calibrate --index indexes/scifact --corpus scifact/corpus.jsonl"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("calibrate", CalibrateRequest, description=__doc__, epilog=EXAMPLE)
    done = calibrate(CalibrateRequest.from_flags(vars(parser.parse_args(argv))))
    sys.stderr.write(
        f"{done.path}: scale {done.found.scale:.4g} from {done.found.labels} labels of {done.found.source}; "
        f"{done.costs}\n"
    )


if __name__ == "__main__":
    run(main)
