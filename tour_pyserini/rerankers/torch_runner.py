"""Run models with torch, faster where that does not change their logits."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.model_files import Row, padded

TOLERANCE, HALF_TOLERANCE = 1e-4, 0.1
"""Allowed difference of logits: rounding errors are far smaller, effects of a wrong formula far larger. In half
precision, rounding errors are large."""
Logits = Callable[[dict[str, Tensor]], Tensor]


class TorchRunner:
    """A model of transformers, run in batches on a CPU or a GPU.

    Because of rounding errors, a logit depends on its batch: by 3e-6 at most between batches of one pair, 1,024 and
    4,096 tokens (MiniLM-L-12, 24 pairs). Rounding logits to a grid would not remove this: a logit near the middle
    between two grid points could still differ, by a whole step. In half precision, where the errors are much larger,
    a CPU gets one pair per call.

    Args:
        model: in evaluation mode on its device.
        options: the device and the number of threads.
        logits: computes logits [n] or [n, labels] from the inputs [n, length] by name; by default the model's own.
        fill: the value that each input is padded with.
        pad_left: pad at the start of a row instead of its end.
    """

    backend = "torch"
    workers = 1

    def __init__(
        self,
        model: Any,
        options: Options,
        logits: Logits | None = None,
        *,
        fill: Mapping[str, int],
        pad_left: bool = False,
    ) -> None:
        self.model = model
        self.one_pair_per_call = model.dtype != torch.float32 and options.device == "cpu"
        self._logits = logits or (lambda inputs: model(**inputs).logits)
        self._parameters = inspect.signature(model.forward).parameters
        self._device, self._threads = options.device, options.threads
        self._fill, self._pad_left = fill, pad_left

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Compute logits [n] or [n, labels]."""
        with torch_threads(self._threads), torch.inference_mode():
            return self._logits(self.tensors(rows)).float().cpu().numpy()

    def tensors(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """The inputs of the model, padded and on its device."""
        # A model's own code may take all of the tokenizer's outputs as `**kwargs`.
        names = [name for name in rows[0] if name in self._parameters] or list(rows[0])
        batch = padded(rows, self._fill, left=self._pad_left)
        return {name: torch.from_numpy(batch[name]).to(self._device) for name in names}

    def test_batches(self, rows: Sequence[Row]) -> None:
        """Give the model one pair per call if a padded batch of these rows has other logits than the rows alone.

        A model that reads its last token has to know what padding is: its configuration may not say, but its tokenizer.
        """
        self.one_pair_per_call |= "input_ids" not in self._fill  # without a padding token, there are no batches
        if self.one_pair_per_call:
            return
        alone = np.concatenate([self([row]) for row in rows])
        tolerance = TOLERANCE if self.model.dtype == torch.float32 else HALF_TOLERANCE
        configured = getattr(self.model.config, "pad_token_id", None)
        if configured is None:
            self.model.config.pad_token_id = self._fill["input_ids"]
        try:
            same = np.allclose(self(rows), alone, rtol=tolerance, atol=tolerance)
        except Exception:  # some models refuse batches
            same = False
        if not same:
            self.model.config.pad_token_id = configured
            self.one_pair_per_call = True


def shorten_last_layer(model: Any, inputs: dict[str, Tensor]) -> bool:
    """Let the last layer of a classifier compute only the first token, if its logits stay the same.

    A classifier of the BERT family reads only the last hidden state of [CLS]. In the last layer, that state needs the
    keys and values of all tokens, but only one query, one row of the attention's output and one row of the feed-forward
    network.

    Args:
        model: a sequence classifier of transformers. It is not changed if its last layer has another architecture or
            its head reads other tokens.
        inputs: a few padded pairs of different lengths to compare the logits on.

    Returns:
        Whether the model was changed.
    """
    base = model.base_model
    layers = getattr(getattr(base, "encoder", None) or getattr(base, "transformer", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return False
    original = layers[-1]
    with torch.inference_mode():
        try:
            expected = model(**inputs).logits
            layers[-1] = (_DistilBertLayer if hasattr(original, "sa_layer_norm") else _BertLayer)(original)
            same = torch.allclose(model(**inputs).logits, expected, rtol=TOLERANCE, atol=TOLERANCE)
        except Exception:  # another architecture: attributes, arguments or shapes that do not fit
            same = False
    if not same:
        layers[-1] = original
    return same


class _BertLayer(nn.Module):
    """A layer of BERT, RoBERTa, ELECTRA or a similar model: takes hidden states [n, length, d], returns [n, 1, d]."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
        """Compute the state of the first token after this layer."""
        first = hidden[:, :1]
        query, key, value, heads = self._projections()
        q, k, v = (
            states.unflatten(-1, (heads, -1)).transpose(1, 2) for states in (query(first), key(hidden), value(hidden))
        )
        mask = None if attention_mask is None else attention_mask[:, :, :1]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self._feed_forward(mixed.transpose(1, 2).flatten(2), first)

    def _projections(self) -> tuple[Any, Any, Any, int]:
        attention = self.layer.attention.self
        return attention.query, attention.key, attention.value, attention.num_attention_heads

    def _feed_forward(self, mixed: Tensor, first: Tensor) -> Tensor:
        return self.layer.feed_forward_chunk(self.layer.attention.output(mixed, first))


class _DistilBertLayer(_BertLayer):
    """The same for DistilBERT, whose modules have other names."""

    def _projections(self) -> tuple[Any, Any, Any, int]:
        attention = self.layer.attention
        return attention.q_lin, attention.k_lin, attention.v_lin, attention.n_heads

    def _feed_forward(self, mixed: Tensor, first: Tensor) -> Tensor:
        state = self.layer.sa_layer_norm(self.layer.attention.out_lin(mixed) + first)
        return self.layer.output_layer_norm(self.layer.ffn(state) + state)
