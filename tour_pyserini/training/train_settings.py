"""Settings that every training has: optimiser, schedule, batches and checkpoints."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from tour_pyserini.errors import TourError

PRECISIONS = ("float32", "bfloat16")


def _option(default: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training; with the data and the base they determine the trained model."""

    epochs: int = _option(3, "passes over the training data")
    max_steps: int = _option(0, "most steps; 0 means that --epochs decides")
    batch_size: int = _option(8, "passages or questions per batch")
    accumulate: int = _option(1, "batches whose gradients are added up for one step")
    learning_rate: float = _option(3e-5, "largest learning rate of AdamW")
    warmup: float = _option(0.1, "share of the steps in which the learning rate rises; then it falls linearly to 0")
    weight_decay: float = _option(0.01, "weight decay of AdamW, for matrices only")
    clip: float = _option(1.0, "largest norm of the gradient")
    validate_every: int = _option(0, "steps between validations; 0 validates after each epoch")
    save_every: int = _option(50, "steps between checkpoints from which an interrupted training continues")
    dropout: float = _option(0.1, "share of the activations that are dropped; dropout takes a third of the time")
    precision: str = _option("float32", "precision of matrix products: float32 or bfloat16")
    seed: int = _option(42, "seed of all random numbers")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "save_every"):
            if getattr(self, name) < 1:
                raise TourError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("max_steps", "validate_every", "learning_rate", "weight_decay", "seed"):
            if getattr(self, name) < 0:
                raise TourError(f"{name} must not be negative: {getattr(self, name)}.")
        for name in ("dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise TourError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}.")
        if self.precision not in PRECISIONS:
            raise TourError(f"precision must be {' or '.join(PRECISIONS)}, not {self.precision!r}.")
        if self.clip <= 0:
            raise TourError(f"clip must be above 0, not {self.clip}.")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, in a training of `steps` steps."""
        rising = int(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)
