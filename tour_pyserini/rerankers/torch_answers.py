"""The back end that runs language models as re-rankers: the logits of one or two answers after the last token."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.torch_classifier import TorchClassifier
from tour_pyserini.support.batching import Row


class TorchAnswers(TorchClassifier):
    """A language model of transformers that answers with one of two tokens.

    Rows are padded on the left, so that the answer follows the last column. Positions are counted without padding:
    models with absolute positions would give other logits otherwise.

    Args:
        model: in evaluation mode on its device.
        answers: the token ids of the answers, the one that means "relevant" first.
        options: the device and the number of threads.
        rows: tokenised pairs of different lengths to test padded batches on.
        fill: the value that each input is padded with.
    """

    def __init__(
        self, model: Any, answers: Sequence[int], options: Options, rows: Sequence[Row], fill: Mapping[str, int]
    ) -> None:
        self._answers = list(answers)
        self._parameters = inspect.signature(model.forward).parameters
        super().__init__(model, options, rows, fill, pad_left=True)

    def _logits(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits [n]: of the first answer, minus that of the second one if there is one."""
        extra: dict[str, Any] = {}
        if "position_ids" in self._parameters:
            extra["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
        if "logits_to_keep" in self._parameters:
            extra["logits_to_keep"] = 1  # the vocabulary is large: only the last position is needed
        if "use_cache" in self._parameters:
            extra["use_cache"] = False
        logits = self.model(**inputs, **extra).logits[:, -1, self._answers].float()
        return logits[:, 0] - logits[:, 1] if logits.shape[1] == 2 else logits[:, 0]
