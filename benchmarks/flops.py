"""The work in a pair."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def flops(model: Path, lengths: Sequence[int]) -> float:
    """Floating-point operations of a transformer on pairs of so many tokens, padding and head left out.

    A layer multiplies each token with 4 h^2 (queries, keys, values, output) and 2 h f (feed-forward) weights, and each
    token with each other twice over h numbers.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    layers, h, f = (config[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    tokens = np.asarray(lengths, dtype=np.float64)
    return float((layers * (2 * (4 * h * h + 2 * h * f) * tokens + 4 * h * tokens**2)).sum())


def token_counts(model: Path, pairs: Sequence[tuple[str, str]], *, max_length: int = 512) -> list[int]:
    """Tokens of each pair, special ones included, cut to the maximum length."""
    from transformers import AutoTokenizer

    if not pairs:
        return []
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    queries, texts = ([pair[side] for pair in pairs] for side in (0, 1))
    coded = tokenizer(queries, texts, truncation=True, max_length=max_length)
    return [len(ids) for ids in coded["input_ids"]]
