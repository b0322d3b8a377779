"""Train phrase encoders and re-rankers: `python -m tour_pyserini.train`."""

import sys
from collections.abc import Sequence

from tour_pyserini.command import run
from tour_pyserini.threads import torch_threads
from tour_pyserini.train_arguments import settings_from, train_parser
from tour_pyserini.training.run import check_new


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = train_parser().parse_args(argv)
    settings = settings_from(args)
    check_new(args.output)
    with torch_threads(args.threads):
        from tour_pyserini.train_phrase_encoder import train_phrase_encoder

        record = train_phrase_encoder(args, settings)
    sys.stderr.write(f"{args.output}: the best of {record['steps']} steps is {record['best_step']}\n")


if __name__ == "__main__":
    run(main)
