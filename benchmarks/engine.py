"""(a) Pairs per second, against sentence-transformers at its defaults."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.flops import flops
from benchmarks.pairs import mixed_pairs
from benchmarks.peak import peak
from benchmarks.report import Bars, Report
from benchmarks.setting import Setting
from benchmarks.turns import in_turns
from tour_pyserini.evaluation.tables import Table

REFERENCE = "sentence-transformers, torch fp32"
BACKENDS = {"torch fp32": ("torch", "fp32"), "ONNX fp32": ("onnx", "fp32"), "ONNX int8": ("onnx", "int8")}


def measure(setting: Setting) -> Report:
    """Score the same pairs with every back end, in turns."""
    pairs = mixed_pairs(setting)
    predict = {REFERENCE: _cross_encoder(setting), **{name: _ours(setting, name) for name in BACKENDS}}
    turns = in_turns({name: partial(score, pairs.texts) for name, score in predict.items()}, rounds=setting.rounds)
    work, top = flops(setting.model, pairs.lengths), peak(quick=setting.quick)
    head = ["back end", "pairs/s", "times as fast", "share of fp32 peak", "largest logit difference"]
    differences = {name: np.abs(turns.results[name] - turns.results[REFERENCE]).max() for name in predict}
    body = [
        [
            *(name, f"{len(pairs.texts) / turns.best(name):.1f}", f"{turns.ratio(REFERENCE, name):.2f}"),
            *(f"{work / turns.best(name) / top:.0%}", f"{differences[name]:.2g}"),
        ]
        for name in predict
    ]
    note = (
        f"{len(pairs.texts)} pairs of NQ questions and passages, {min(pairs.lengths)} to {max(pairs.lengths)} tokens "
        f"(mean {np.mean(pairs.lengths):.0f}), {setting.rounds} rounds in turns; peak {top / 1e9:.0f} GFLOP/s by a "
        "product of matrices in the same run; work counted without padding."
    )
    ratios = {name: turns.ratio(REFERENCE, name) for name in predict}
    return Report(
        "a", "Pairs per second", Table([head, *body]), note, [Bars("times sentence-transformers", ratios, 1.4)]
    )


def _cross_encoder(setting: Setting) -> Callable[[Any], Any]:
    import torch
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(setting.model), device="cpu")
    return lambda pairs: model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)


def _ours(setting: Setting, name: str) -> Callable[[Any], Any]:
    from tour_pyserini.rerankers import load_reranker

    backend, precision = BACKENDS[name]
    return load_reranker(setting.model, backend=backend, precision=precision).predict
