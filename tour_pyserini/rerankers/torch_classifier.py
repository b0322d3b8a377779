"""The back end that runs classifiers with torch."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tour_pyserini.rerankers.first_token import shorten_last_layer
from tour_pyserini.rerankers.options import Options
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.devices import torch_threads


class TorchClassifier:
    """A sequence classifier of transformers, run in batches on a CPU or a GPU.

    Because of rounding errors, a logit depends on its batch: by 3e-6 at most between batches of one pair, 1,024 and
    4,096 tokens (MiniLM-L-12, 24 pairs). Rounding logits to a grid would not remove this: a logit near the middle
    between two grid points could still differ, by a whole step.

    Args:
        model: in evaluation mode on its device; its last layer is shortened if that does not change its logits.
        options: the device and the number of threads.
        rows: tokenised pairs to test the shortened layer on.
        fill: the value that each input is padded with.
    """

    backend = "torch"
    one_pair_per_call = False
    workers = 1

    def __init__(self, model: Any, options: Options, rows: Sequence[Row], fill: Mapping[str, int]) -> None:
        self.model = model
        self._inputs = inputs_of(model, rows)
        self._device = options.device
        self._threads = options.threads
        shorten_last_layer(model, self._tensors(padded(rows, fill)))

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute logits [n, labels]."""
        with torch_threads(self._threads), torch.inference_mode():
            return self.model(**self._tensors(batch)).logits.cpu().numpy()

    def _tensors(self, batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(batch[name]).to(self._device) for name in self._inputs}


def inputs_of(model: Any, rows: Sequence[Row]) -> Collection[str]:
    """Names of the tokenizer's outputs that the model takes as inputs."""
    parameters = inspect.signature(model.forward).parameters
    return [name for name in rows[0] if name in parameters]
