# PYTHON_ARGCOMPLETE_OK
"""Train phrase encoders and phrase re-rankers."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tour_pyserini.cli.command import run
from tour_pyserini.cli.train_flags import request_from, train_parser
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.training.requests import (
    PhraseEncoderRequest,
    PhraseRerankerRequest,
    QueryEncoderRequest,
    ReadingComprehensionRequest,
    TrainingRequest,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = train_parser().parse_args(argv)
    request = request_from(args)
    with torch_threads(args.threads):
        from transformers.utils import logging

        logging.disable_progress_bar()  # of reading and writing weights; the training has its own
        record = _jobs()[type(request)](request, report=lambda line: sys.stderr.write(f"{line}\n"))
    sys.stderr.write(f"{request.output}: the best of {record['steps']} steps is {record['best_step']}\n")


def _jobs() -> Mapping[type[TrainingRequest], Callable[..., dict[str, Any]]]:
    from tour_pyserini.training import jobs  # loads torch, which --help does not need

    return {
        PhraseEncoderRequest: jobs.train_phrase_encoder,
        QueryEncoderRequest: jobs.train_query_encoder,
        PhraseRerankerRequest: jobs.train_phrase_reranker,
        ReadingComprehensionRequest: jobs.train_reading_comprehension,
    }


if __name__ == "__main__":
    run(main)
