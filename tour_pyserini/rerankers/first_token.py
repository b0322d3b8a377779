"""Make a classifier faster: its last layer computes only the first token, if the head reads no other token.

A classifier of the BERT family reads only the last hidden state of [CLS]. In the last layer, that state needs the keys
and values of all tokens, but only one query, one row of the attention's output and one row of the feed-forward network.
The result is the same except for rounding; this is tested on the model itself before the faster layer is used.
"""

from typing import Any

import torch
from torch import Tensor, nn

TOLERANCE = 1e-4
"""Allowed difference of logits: rounding errors are far smaller, effects of a wrong formula far larger."""


def shorten_last_layer(model: Any, inputs: dict[str, Tensor]) -> bool:
    """Replace the last layer of a classifier by one that computes only the first token, if its logits stay the same.

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
            layers[-1] = (DistilBertLayer if hasattr(original, "sa_layer_norm") else BertLayer)(original)
            same = torch.allclose(model(**inputs).logits, expected, rtol=TOLERANCE, atol=TOLERANCE)
        except Exception:  # another architecture: attributes, arguments or shapes that do not fit
            same = False
    if not same:
        layers[-1] = original
    return same


class BertLayer(nn.Module):
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


class DistilBertLayer(BertLayer):
    """The same for DistilBERT, whose modules have other names."""

    def _projections(self) -> tuple[Any, Any, Any, int]:
        attention = self.layer.attention
        return attention.q_lin, attention.k_lin, attention.v_lin, attention.n_heads

    def _feed_forward(self, mixed: Tensor, first: Tensor) -> Tensor:
        state = self.layer.sa_layer_norm(self.layer.attention.out_lin(mixed) + first)
        return self.layer.output_layer_norm(self.layer.ffn(state) + state)
