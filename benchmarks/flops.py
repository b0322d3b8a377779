"""Floating-point operations: how many a cross-encoder needs, and how many per second the machine can do."""

import json
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

MATRIX_SIZES = (1024, 2048, 4096)


def flops(model: Path, lengths: Sequence[int]) -> float:
    """Floating-point operations of a transformer on pairs with these numbers of tokens, without padding and head.

    A layer multiplies each token with 4 h^2 (queries, keys, values, output) and 2 h f (feed-forward) weights, and each
    token with each other twice over h numbers.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    layers, h, f = (config[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    tokens = np.asarray(lengths, dtype=np.float64)
    return float((layers * (2 * (4 * h * h + 2 * h * f) * tokens + 4 * h * tokens**2)).sum())


def token_counts(model: Path, pairs: Sequence[tuple[str, str]], *, max_length: int = 512) -> list[int]:
    """Tokens of each pair, with special tokens, truncated to the maximum length."""
    from transformers import AutoTokenizer

    if not pairs:
        return []
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    queries, texts = ([pair[side] for pair in pairs] for side in (0, 1))
    coded = tokenizer(queries, texts, truncation=True, max_length=max_length)
    return [len(ids) for ids in coded["input_ids"]]


@lru_cache
def peak_flops(*, quick: bool = False) -> float:
    """Floating-point operations per second of the fastest fp32 matrix product on all cores."""
    import torch

    best = 0.0
    for size in MATRIX_SIZES[: 1 if quick else None]:
        a, b = torch.rand(size, size), torch.rand(size, size)
        for _ in range(2 if quick else 6):
            start = time.perf_counter()
            a @ b
            best = max(best, 2 * size**3 / (time.perf_counter() - start))  # a multiplication and an addition are two
    return best
