# PYTHON_ARGCOMPLETE_OK
"""Learn a correction of the query encoder from kept labels.

It reads the labels that searches of the given topics have bought, and buys none. The correction is written as an
adapter. What is written is chosen by held-out queries; if they do
not gain by it, nothing is written and the exit code is 2. `search --adapter FILE` uses it.
"""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import request_parser
from tour_pyserini.training.learning import LearnRequest, learn

EXAMPLE = """example:
  python -m tour_pyserini.search --topics train.tsv --index indexes/a --corpus a/corpus.jsonl
  python -m tour_pyserini.learn --topics train.tsv --index indexes/a --corpus a/corpus.jsonl --output a.adapter
  python -m tour_pyserini.search --topics test.tsv --index indexes/a --corpus a/corpus.jsonl --adapter a.adapter"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("learn", LearnRequest, description=__doc__, epilog=EXAMPLE)
    done = learn(LearnRequest.from_flags(vars(parser.parse_args(argv))))
    choice = done.choice
    sys.stderr.write(
        f"{done.output}: rank {choice.rank}, ridge {choice.ridge:g}, from {done.labels} labels of {done.queries} "
        f"queries; held-out queries: the reciprocal rank of the passage with the best label rises from "
        f"{choice.before:.4f} by {choice.gain:.4f} (p {choice.p:.2g})\n"
    )


if __name__ == "__main__":
    run(main)
