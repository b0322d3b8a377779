"""Classifiers run by torch."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tour_pyserini.rerankers.first_token import shorten
from tour_pyserini.rerankers.options import Options
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.devices import torch_threads


class TorchClassifier:
    """A sequence classifier of transformers, in batches, on a CPU or a GPU.

    Rounding makes a logit depend on its batch: by 3e-6 at most between batches of one pair, 1,024 and 4,096 tokens
    (MiniLM-L-12, 24 pairs). Logits are not rounded to hide that: those near a step of any grid would still differ, by a
    whole step.

    Args:
        model: in evaluation mode on its device; its last layer is shortened where that is exact.
        options: the device and the number of threads.
        rows: tokenised pairs to try the shortened layer on.
        fill: what rows are padded with.
    """

    backend = "torch"
    alone = False
    workers = 1

    def __init__(self, model: Any, options: Options, rows: Sequence[Row], fill: Mapping[str, int]) -> None:
        self.model = model
        self._inputs = inputs_of(model, rows)
        self._device = options.device
        self._threads = options.threads
        shorten(model, self._tensors(padded(rows, fill)))

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits [n, labels]."""
        with torch_threads(self._threads), torch.inference_mode():
            return self.model(**self._tensors(batch)).logits.cpu().numpy()

    def _tensors(self, batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(batch[name]).to(self._device) for name in self._inputs}


def inputs_of(model: Any, rows: Sequence[Row]) -> Collection[str]:
    """Which of the tokenizer's outputs the model takes."""
    taken = inspect.signature(model.forward).parameters
    return [name for name in rows[0] if name in taken]
