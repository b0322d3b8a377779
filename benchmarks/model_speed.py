"""(a) Pairs and (g) passages per second, compared with sentence-transformers at its defaults."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.flops import flops, peak_flops, token_counts
from benchmarks.timings import time_in_turns
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.loading import load_document_encoder
from tour_pyserini.encoders.sentence_model import encoder_folder
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers.loading import load_reranker

REFERENCE = "sentence-transformers, torch fp32"
OWN: Mapping[str, Mapping[str, Any]] = {
    "torch fp32": {"backend": "torch", "precision": "fp32"},
    "ONNX fp32": {"backend": "onnx", "precision": "fp32"},
    "ONNX int8": {"backend": "onnx", "precision": "int8"},
}
SHORTEST, LONGEST, BINS = 40, 250, 7  # tokens of pairs, and groups of lengths
DRAWN = 16  # pairs that are drawn for each pair that is chosen
PYSERINI_BATCH = 64  # passages; what pyserini.encode takes by default


def measure_labelling(setup: BenchmarkSetup) -> Report:
    """Score the same pairs with every back end, in turns."""
    import torch
    from sentence_transformers import CrossEncoder

    pairs, model = mixed_pairs(setup), CrossEncoder(str(setup.model), device="cpu")
    reference = partial(model.predict, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    own = {name: load_reranker(setup.model, **options).predict for name, options in OWN.items()}
    table, how = _compared(setup, {REFERENCE: reference, **own}, pairs.texts, pairs.lengths, setup.model)
    return Report("a", "Pairs per second", table, f"{len(pairs.texts)} pairs of NQ questions and passages, {how}")


def measure_encoding(setup: BenchmarkSetup) -> Report:
    """Encode the same passages in every way, in turns."""
    from sentence_transformers import SentenceTransformer

    docids = list(texts := open_texts(setup.passages_from or setup.corpus(NQ[0])))
    random.Random(0).shuffle(docids)
    passages = [str(texts[docid]) for docid in docids[: setup.passages]]
    folder = encoder_folder(setup.encoder)
    own = {name: load_document_encoder(setup.encoder, **options) for name, options in OWN.items()}
    ways = {
        REFERENCE: partial(SentenceTransformer(str(folder), device="cpu").encode, show_progress_bar=False),
        "Pyserini's document encoder, torch fp32": _pyserini(str(folder)),
        **{name: encoder.encode for name, encoder in own.items()},
    }
    graph = own["ONNX fp32"].runner
    lengths = [len(ids) for ids in graph.tokens(passages, graph.length)]
    table, how = _compared(setup, ways, passages, lengths, folder)
    note = f"{len(passages)} passages, the first after a shuffle with the seed 0, {how}"
    return Report("g", "Passages encoded per second", table, note)


def _compared(
    setup: BenchmarkSetup,
    ways: Mapping[str, Callable[[Any], Any]],
    inputs: Sequence[Any],
    lengths: Sequence[int],
    model: Path,
) -> tuple[Table, str]:
    """A line for each way to run a model on the inputs, the first being the reference, and how it was measured."""
    timings = time_in_turns({name: partial(way, inputs) for name, way in ways.items()}, rounds=setup.rounds)
    work, peak = flops(model, lengths), peak_flops(quick=setup.quick)
    exact = timings.results[REFERENCE]
    body = [
        [
            *(name, f"{len(inputs) / timings.best(name):.1f}", f"{timings.ratio(REFERENCE, name):.2f}"),
            f"{work / timings.best(name) / peak:.0%}",
            f"{np.abs(timings.results[name] - exact).max():.2g}",
        ]
        for name in ways
    ]
    head = ["run by", "a second", "times as fast", "share of fp32 peak", "largest difference"]
    how = (
        f"{min(lengths)} to {max(lengths)} tokens (mean {np.mean(lengths):.0f}), {setup.rounds} rounds in turns; peak "
        f"{peak / 1e9:.0f} GFLOP/s by a product of matrices in the same run; work counted without padding."
    )
    return Table([head, *body]), how


class Pairs(NamedTuple):
    """(question, passage) pairs, and the number of tokens of each."""

    texts: list[tuple[str, str]]
    lengths: list[int]


@lru_cache
def mixed_pairs(setup: BenchmarkSetup) -> Pairs:
    """NQ questions with passages drawn at random, spread as evenly as possible over 40 to 250 tokens."""
    texts = open_texts(setup.corpus(NQ[0]))
    docids = np.random.default_rng(0).permutation(list(texts))[: DRAWN * setup.pairs].tolist()
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


def _pyserini(folder: str) -> Callable[[Sequence[str]], np.ndarray]:
    """What `pyserini.encode` does: batches of 64 passages in the order of the corpus."""
    from tour_pyserini.support.pyserini import ensure_java

    ensure_java()
    from pyserini.encode import AutoDocumentEncoder

    encoder = AutoDocumentEncoder(model_name=folder, device="cpu", pooling="mean", l2_norm=True)

    def encode(texts: Sequence[str]) -> np.ndarray:
        import torch

        starts = range(0, len(texts), PYSERINI_BATCH)
        with torch.no_grad():
            return np.concatenate([encoder.encode(texts=list(texts[i : i + PYSERINI_BATCH])) for i in starts])

    return encode
