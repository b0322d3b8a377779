"""The last layer for the first token alone, where the head reads no other.

A classifier of the BERT family reads only the last hidden state of [CLS]. In the last layer that state needs the keys
and values of all tokens, but one query, one row of the attention's output and one row of the feed-forward network. The
result is the same to rounding, and it is tried on the model itself before it is used.
"""

from typing import Any

import torch
from torch import Tensor, nn

TOLERANCE = 1e-4
"""Logits; what rounding does is far smaller, and what another formula does far larger."""


def shorten(model: Any, inputs: dict[str, Tensor]) -> bool:
    """Let the last layer of a classifier compute the first token alone, if that leaves its logits as they are.

    Args:
        model: a sequence classifier of transformers; it stays as it is when its last layer is of another make or its
            head reads other tokens.
        inputs: a few padded pairs of different lengths to try it on.

    Returns:
        Whether the model was changed.
    """
    base = model.base_model
    layers = getattr(getattr(base, "encoder", None) or getattr(base, "transformer", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return False
    whole = layers[-1]
    with torch.inference_mode():
        try:
            wanted = model(**inputs).logits
            layers[-1] = (DistilBertLayer if hasattr(whole, "sa_layer_norm") else BertLayer)(whole)
            same = torch.allclose(model(**inputs).logits, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        except Exception:  # a layer of another make: attributes, arguments or shapes that do not fit
            same = False
    if not same:
        layers[-1] = whole
    return same


class BertLayer(nn.Module):
    """A layer of BERT, RoBERTa, ELECTRA and their kin that takes hidden states [n, length, d] and returns [n, 1, d]."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
        """The first token's state after this layer."""
        first = hidden[:, :1]
        query, key, value, heads = self._projections()
        q, k, v = (
            states.unflatten(-1, (heads, -1)).transpose(1, 2) for states in (query(first), key(hidden), value(hidden))
        )
        mask = None if attention_mask is None else attention_mask[:, :, :1]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self._after(mixed.transpose(1, 2).flatten(2), first)

    def _projections(self) -> tuple[Any, Any, Any, int]:
        own = self.layer.attention.self
        return own.query, own.key, own.value, own.num_attention_heads

    def _after(self, mixed: Tensor, first: Tensor) -> Tensor:
        return self.layer.feed_forward_chunk(self.layer.attention.output(mixed, first))


class DistilBertLayer(BertLayer):
    """The same for DistilBERT, whose parts have other names."""

    def _projections(self) -> tuple[Any, Any, Any, int]:
        own = self.layer.attention
        return own.q_lin, own.k_lin, own.v_lin, own.n_heads

    def _after(self, mixed: Tensor, first: Tensor) -> Tensor:
        state = self.layer.sa_layer_norm(self.layer.attention.out_lin(mixed) + first)
        return self.layer.output_layer_norm(self.layer.ffn(state) + state)
