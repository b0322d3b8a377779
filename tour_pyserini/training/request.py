"""What every training is asked to do; it does not load torch, so that commands start fast."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tour_pyserini.errors import TourError
from tour_pyserini.flags import Request, flag_name, option

Source = Sequence[str]
"""The files of one source of data: questions, and where they need them, a corpus and qrels."""

# Groups of flags in --help.
_MODEL, _VALIDATION, _TRAINING = "model", "validation", "training"


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Request):
    """The base, the data and the settings of a training, which together determine the trained model.

    Attributes:
        base: the model to start from: a folder or a name on the model hub.
        output: the folder of the trained model; it must be new or empty.
        data: sources to train on; `read_examples` says what the files of a source are.
        validation: sources to validate on; if empty, a part of `data` is held out.
    """

    base: str = option(dataclasses.MISSING, "the model to start from: a folder or a hub name", group=_MODEL)
    output: str = option(dataclasses.MISSING, "the folder of the trained model", group=_MODEL, metavar="DIR")
    device: str = option("cpu", "cpu, cuda:0, ...", group=_MODEL)
    threads: int | None = option(None, "most threads (default: one for each processor)", group=_MODEL, count=True)

    data: Sequence[Source] = option(dataclasses.MISSING)
    validation: Sequence[Source] = option(())
    validation_share: float = option(
        0.1, "share of the passages that is held out if --validation is not given", group=_VALIDATION, metavar="X"
    )
    validation_questions: int = option(300, "most questions to validate on", group=_VALIDATION, count=True)

    epochs: int = option(3, "passes over the training data", group=_TRAINING, count=True)
    max_steps: int = option(0, "most steps; 0 means that --epochs decides", group=_TRAINING, metavar="X")
    batch_size: int = option(8, "passages or questions per batch", group=_TRAINING, count=True)
    accumulate: int = option(1, "batches whose gradients are added up for one step", group=_TRAINING, count=True)
    learning_rate: float = option(3e-5, "largest learning rate of AdamW", group=_TRAINING, metavar="X")
    warmup: float = option(
        0.1,
        "share of the steps in which the learning rate rises; then it falls linearly to 0",
        group=_TRAINING,
        metavar="X",
    )
    weight_decay: float = option(0.01, "weight decay of AdamW, for matrices only", group=_TRAINING, metavar="X")
    clip: float = option(1.0, "largest norm of the gradient", group=_TRAINING, metavar="X")
    validate_every: int = option(
        0, "steps between validations; 0 validates after each epoch", group=_TRAINING, metavar="X"
    )
    save_every: int = option(
        50, "steps between checkpoints from which an interrupted training continues", group=_TRAINING, count=True
    )
    dropout: float = option(
        0.1,
        "share of the activations that are dropped; dropout takes a third of the time",
        group=_TRAINING,
        metavar="X",
    )
    precision: str = option("float32", "precision of matrix products", group=_TRAINING, choices=("float32", "bfloat16"))
    seed: int = option(42, "seed of all random numbers", group=_TRAINING, metavar="X")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_steps", "validate_every", "learning_rate", "weight_decay", "seed"):
            if getattr(self, name) < 0:
                raise TourError(f"{flag_name(name)} must not be negative: {getattr(self, name)}.")
        for name in ("dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise TourError(f"{flag_name(name)} must be at least 0 and below 1, not {getattr(self, name)}.")
        if not 0 < self.validation_share < 1:
            raise TourError(f"--validation-share must be above 0 and below 1, not {self.validation_share}.")
        if self.clip <= 0:
            raise TourError(f"--clip must be above 0, not {self.clip}.")
