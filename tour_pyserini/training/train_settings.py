"""How a model is trained: its settings, precision and dropout."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from tour_pyserini.errors import TourError

PRECISIONS = ("float32", "bfloat16")


def _option(default: Any, help: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """What decides, with the data and the base, what comes out."""

    epochs: int = _option(3, "passes over the training data")
    max_steps: int = _option(0, "steps at most; 0 leaves it to the epochs")
    batch_size: int = _option(8, "passages, or questions, of a step")
    accumulate: int = _option(1, "batches whose gradients make one step")
    learning_rate: float = _option(3e-5, "largest learning rate of AdamW")
    warmup: float = _option(0.1, "share of the steps in which it rises; then it falls, linearly")
    weight_decay: float = _option(0.01, "of AdamW, for matrices alone")
    clip: float = _option(1.0, "largest norm of the gradient")
    validate_every: int = _option(0, "steps between validations; 0 validates after each epoch")
    save_every: int = _option(50, "steps between checkpoints from which an interrupted training goes on")
    dropout: float = _option(0.1, "share of the activations that is dropped; it takes a third of a step's time")
    precision: str = _option("float32", "what matrix products are computed in: float32 or bfloat16")
    seed: int = _option(42, "of every random choice")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "save_every"):
            if getattr(self, name) < 1:
                raise TourError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}.")
        for name in ("max_steps", "validate_every", "learning_rate", "weight_decay", "seed"):
            if getattr(self, name) < 0:
                raise TourError(f"--{name.replace('_', '-')} cannot be negative: {getattr(self, name)}.")
        if not 0 <= self.dropout < 1:
            raise TourError(f"--dropout must lie in [0, 1), not {self.dropout}.")
        if self.precision not in PRECISIONS:
            raise TourError(f"--precision must be {' or '.join(PRECISIONS)}, not {self.precision!r}.")
        if not 0 <= self.warmup < 1 or self.clip <= 0:
            raise TourError(f"--warmup must lie in [0, 1) and --clip above 0, not {self.warmup} and {self.clip}.")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, out of so many."""
        rising = int(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)


def computing_in(precision: str, model: torch.nn.Module) -> Any:
    """Run matrix products in `bfloat16`, about twice as fast where the processor has it; weights stay float32.

    Only while the model is being trained: what is validated is what will be used, in float32.
    """
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=model.training and precision == "bfloat16")


def set_dropout(model: torch.nn.Module, share: float) -> None:
    """Have all of a model's dropout layers drop that share."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share
