"""`python -m tour_pyserini.train reading-comprehension`."""

import argparse
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.phrase_encoders.loading import find_model
from tour_pyserini.plugs.model_folder import fingerprint
from tour_pyserini.rerankers.checkpoint import read_tokenizer
from tour_pyserini.train_inputs import read_examples_for, told_by
from tour_pyserini.training.reading_task import ReadingTask
from tour_pyserini.training.run import run_training
from tour_pyserini.training.settings import TrainSettings


def train_reading_comprehension(args: argparse.Namespace, settings: TrainSettings) -> dict[str, Any]:
    """Train an extractive reader; the training's record."""
    base = find_model(args.base)
    examples, held = read_examples_for(args, settings)
    told = {**told_by(args), "base": args.base, "base_fingerprint": fingerprint(base)}

    def make(_: Path) -> ReadingTask:
        import torch
        from transformers import AutoModelForQuestionAnswering

        torch.manual_seed(settings.seed)  # the head's first weights
        try:
            model = AutoModelForQuestionAnswering.from_pretrained(str(base), weights_only=True, trust_remote_code=False)
        except Exception as error:
            raise TourError(f"{args.base} cannot be trained as a reader ({first_line(error)}).") from error
        options = {"max_length": args.max_length, "device": args.device}
        return ReadingTask(model.float(), read_tokenizer(base), examples, held, settings, **options)

    return run_training(make, settings, told, output=args.output)
