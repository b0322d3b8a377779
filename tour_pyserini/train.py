"""Train phrase encoders and re-rankers: `python -m tour_pyserini.train`."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tour_pyserini.cli.command import run
from tour_pyserini.cli.train_flags import settings_from, train_parser
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.training_run import check_new


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = train_parser().parse_args(argv)
    settings = settings_from(args)
    check_new(args.output)
    with torch_threads(args.threads):
        from transformers.utils import logging

        logging.disable_progress_bar()  # of reading and writing weights; the training has its own
        record = _trainer(args.what)(args, settings)
    sys.stderr.write(f"{args.output}: the best of {record['steps']} steps is {record['best_step']}\n")


def _trainer(what: str) -> Callable[[argparse.Namespace, TrainSettings], dict[str, Any]]:
    """What trains that kind of model; the others are not loaded."""
    name = f"train_{what.replace('-', '_')}"
    return getattr(importlib.import_module("tour_pyserini.training.jobs"), name)


if __name__ == "__main__":
    run(main)
