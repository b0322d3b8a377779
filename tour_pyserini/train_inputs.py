"""What the train commands are given, read and described."""

import argparse
import dataclasses
from typing import Any

from tour_pyserini.training.data import Example
from tour_pyserini.training.sets import described, read_sources, split
from tour_pyserini.training.settings import TrainSettings


def read_examples_for(args: argparse.Namespace, settings: TrainSettings) -> tuple[list[Example], list[Example]]:
    """Training and validation examples of --data and --validation."""
    examples = read_sources(args.data)
    if args.validation:
        return examples, read_sources(args.validation)[: args.validation_questions]
    return split(examples, share=args.validation_share, most=args.validation_questions, seed=settings.seed)


def told_by(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say about the model and the data, for the record; how fast it is done is no part of it."""
    left_out = {"output", "device", "threads", "data", "validation", "base"}
    left_out |= {field.name for field in dataclasses.fields(TrainSettings)}
    told = {name: value for name, value in vars(args).items() if name not in left_out}
    return {**told, "data": described(args.data), "validation": described(args.validation or [])}
