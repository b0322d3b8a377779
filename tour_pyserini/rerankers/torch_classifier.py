"""The back end that runs classifiers with torch."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.first_token import TOLERANCE, shorten_last_layer
from tour_pyserini.rerankers.options import Options
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.devices import torch_threads

HALF_TOLERANCE = 0.1
"""Allowed difference of logits in half precision, whose rounding errors are large."""


class TorchClassifier:
    """A sequence classifier of transformers, run in batches on a CPU or a GPU.

    Because of rounding errors, a logit depends on its batch: by 3e-6 at most between batches of one pair, 1,024 and
    4,096 tokens (MiniLM-L-12, 24 pairs). Rounding logits to a grid would not remove this: a logit near the middle
    between two grid points could still differ, by a whole step. In half precision, where the errors are much larger,
    a CPU gets one pair per call. So does a model whose logits are not the same in a padded batch.

    Args:
        model: in evaluation mode on its device; its last layer is shortened if that does not change its logits.
        options: the device and the number of threads.
        rows: tokenised pairs of different lengths to test the shortened layer and padded batches on.
        fill: the value that each input is padded with; without `input_ids`, the model gets one pair per call.
        pad_left: batches are padded at the start of a row instead of its end.
    """

    backend = "torch"
    workers = 1

    def __init__(
        self, model: Any, options: Options, rows: Sequence[Row], fill: Mapping[str, int], *, pad_left: bool = False
    ) -> None:
        self.model = model
        self._inputs = inputs_of(model, rows)
        self._device = options.device
        self._threads = options.threads
        shorten_last_layer(model, self._tensors(padded(rows, fill, left=pad_left)))
        half = model.dtype != torch.float32
        self.one_pair_per_call = (half and options.device == "cpu") or not self._batches_rightly(
            rows, fill, pad_left=pad_left, tolerance=HALF_TOLERANCE if half else TOLERANCE
        )

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute logits [n, labels]."""
        with torch_threads(self._threads), torch.inference_mode():
            return self._logits(self._tensors(batch)).float().cpu().numpy()

    def _logits(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.model(**inputs).logits

    def _batches_rightly(
        self, rows: Sequence[Row], fill: Mapping[str, int], *, pad_left: bool, tolerance: float
    ) -> bool:
        """Whether the logits of a padded batch are those of its pairs alone.

        A model that reads its last token has to know what padding is: its configuration may not say, but its tokenizer.
        """
        if "input_ids" not in fill:
            return False
        alone = np.concatenate([self._alone(row) for row in rows])
        configured = getattr(self.model.config, "pad_token_id", None)
        if configured is None:
            self.model.config.pad_token_id = fill["input_ids"]
        try:
            together = self(padded(rows, fill, left=pad_left))
            same = np.allclose(together, alone, rtol=tolerance, atol=tolerance)
        except Exception:  # some models refuse batches
            same = False
        if not same:
            self.model.config.pad_token_id = configured
        return same

    def _alone(self, row: Row) -> np.ndarray:
        try:
            return self(padded([row], {}))
        except TourError:
            raise
        except Exception as error:
            name = self.model.config.name_or_path or type(self.model).__name__
            raise TourError(f"{name} cannot score a pair ({first_line(error)}); choose another model.") from error

    def _tensors(self, batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(batch[name]).to(self._device) for name in self._inputs}


def inputs_of(model: Any, rows: Sequence[Row]) -> Collection[str]:
    """Names of the tokenizer's outputs that the model takes as inputs."""
    parameters = inspect.signature(model.forward).parameters
    # A model's own code may take all of them as `**kwargs`.
    return [name for name in rows[0] if name in parameters] or list(rows[0])
