"""(a) Pairs per second, compared with sentence-transformers at its defaults."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark_report import Bars, Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.flops import flops, peak_flops, token_counts
from benchmarks.timings import time_in_turns
from tour_pyserini.data.texts import open_texts
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers import load_reranker

REFERENCE = "sentence-transformers, torch fp32"
BACKENDS = {"torch fp32": ("torch", "fp32"), "ONNX fp32": ("onnx", "fp32"), "ONNX int8": ("onnx", "int8")}
SHORTEST, LONGEST, BINS = 40, 250, 7  # tokens of pairs, and groups of lengths
DRAWN = 16  # pairs that are drawn for each pair that is chosen


def measure_labelling(setup: BenchmarkSetup) -> Report:
    """Score the same pairs with every back end, in turns."""
    pairs = mixed_pairs(setup)
    predict = {REFERENCE: _sentence_transformers(setup), **{name: _backend(setup, name) for name in BACKENDS}}
    timings = time_in_turns({name: partial(score, pairs.texts) for name, score in predict.items()}, rounds=setup.rounds)
    work, peak = flops(setup.model, pairs.lengths), peak_flops(quick=setup.quick)
    head = ["back end", "pairs/s", "times as fast", "share of fp32 peak", "largest logit difference"]
    differences = {name: np.abs(timings.results[name] - timings.results[REFERENCE]).max() for name in predict}
    ratios = {name: timings.ratio(REFERENCE, name) for name in predict}
    body = [
        [
            *(name, f"{len(pairs.texts) / timings.best(name):.1f}", f"{ratios[name]:.2f}"),
            *(f"{work / timings.best(name) / peak:.0%}", f"{differences[name]:.2g}"),
        ]
        for name in predict
    ]
    note = (
        f"{len(pairs.texts)} pairs of NQ questions and passages, {min(pairs.lengths)} to {max(pairs.lengths)} tokens "
        f"(mean {np.mean(pairs.lengths):.0f}), {setup.rounds} rounds in turns; peak {peak / 1e9:.0f} GFLOP/s by a "
        "product of matrices in the same run; work counted without padding."
    )
    return Report(
        "a", "Pairs per second", Table([head, *body]), note, [Bars("times sentence-transformers", ratios, 1.4)]
    )


class Pairs(NamedTuple):
    """(question, passage) pairs, and the number of tokens of each."""

    texts: list[tuple[str, str]]
    lengths: list[int]


@lru_cache
def mixed_pairs(setup: BenchmarkSetup) -> Pairs:
    """NQ questions with passages drawn at random, spread as evenly as possible over 40 to 250 tokens."""
    random = np.random.default_rng(0)
    texts = open_texts(setup.corpus(NQ[0]))
    docids = random.permutation(list(texts))[: DRAWN * setup.pairs].tolist()
    questions = [record["text"] for record in setup.topics(*NQ).records()]
    drawn = [(questions[number % len(questions)], texts[docid]) for number, docid in enumerate(docids)]
    lengths = np.array(token_counts(setup.model, drawn))
    # The smallest bin is used first; what it cannot fill of its share goes to the others.
    bins = np.digitize(lengths, np.linspace(SHORTEST, LONGEST + 1, BINS + 1))
    by_size = sorted((np.flatnonzero(bins == number).tolist() for number in range(1, BINS + 1)), key=len)
    chosen: list[int] = []
    for left, group in zip(range(BINS, 0, -1), by_size, strict=True):
        chosen += group[: (setup.pairs - len(chosen)) // left]
    chosen = sorted(chosen)  # so that lengths are mixed
    return Pairs([drawn[position] for position in chosen], lengths[chosen].tolist())


def _sentence_transformers(setup: BenchmarkSetup) -> Callable[[Any], Any]:
    import torch
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(setup.model), device="cpu")
    return lambda pairs: model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)


def _backend(setup: BenchmarkSetup, name: str) -> Callable[[Any], Any]:
    backend, precision = BACKENDS[name]
    return load_reranker(setup.model, backend=backend, precision=precision).predict
