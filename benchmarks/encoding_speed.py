"""(g) Passages encoded per second, compared with sentence-transformers at its defaults."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.benchmark_report import Bars, Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.flops import flops, peak_flops
from benchmarks.timings import time_in_turns
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.loading import load_document_encoder
from tour_pyserini.encoders.model_folder import encoder_folder
from tour_pyserini.evaluation.tables import Table

REFERENCE = "sentence-transformers, torch fp32"
PYSERINI = "Pyserini's document encoder, torch fp32"
OWN: dict[str, dict[str, Any]] = {
    "torch fp32": {"backend": "torch"},
    "ONNX fp32": {"backend": "onnx"},
    "ONNX int8": {"backend": "onnx", "precision": "int8"},
}
PYSERINI_BATCH = 64  # passages; what pyserini.encode takes by default


def measure_encoding(setup: BenchmarkSetup) -> Report:
    """Encode the same passages in every way, in turns."""
    texts = passages(setup)
    folder = encoder_folder(setup.encoder)
    encoders = {REFERENCE: _sentence_transformers(str(folder)), PYSERINI: _pyserini(str(folder))}
    own = {name: load_document_encoder(setup.encoder, **options) for name, options in OWN.items()}
    encoders |= {name: encoder.encode for name, encoder in own.items()}
    calls = {name: partial(encode, texts) for name, encode in encoders.items()}
    timings = time_in_turns(calls, rounds=setup.rounds)
    graph = own["ONNX fp32"].runner
    lengths = [len(ids) for ids in graph.tokens(texts, graph.length)]
    work, peak = flops(folder, lengths), peak_flops(quick=setup.quick)
    exact = timings.results[REFERENCE]
    ratios = {name: timings.ratio(REFERENCE, name) for name in encoders}
    body = [
        [
            *(name, f"{len(texts) / timings.best(name):.1f}", f"{ratios[name]:.2f}"),
            f"{work / timings.best(name) / peak:.0%}",
            f"{np.abs(timings.results[name] - exact).max():.2g}",
        ]
        for name in encoders
    ]
    head = ["encoder", "passages/s", "times as fast", "share of fp32 peak", "largest difference of a number"]
    note = (
        f"{len(texts)} passages, the first after a shuffle with the seed 0, {min(lengths)} to {max(lengths)} tokens "
        f"(mean {np.mean(lengths):.0f}), {setup.rounds} rounds in turns; peak {peak / 1e9:.0f} GFLOP/s by a product of "
        "matrices in the same run; work counted without padding."
    )
    return Report(
        "g",
        "Passages encoded per second",
        Table([head, *body]),
        note,
        [Bars("times sentence-transformers", ratios, 1.4)],
    )


def passages(setup: BenchmarkSetup) -> list[str]:
    """The first passages of the corpus after a shuffle."""
    texts = open_texts(setup.passages_from or setup.corpus(NQ[0]))
    docids = list(texts)
    random.Random(0).shuffle(docids)
    return [str(texts[docid]) for docid in docids[: setup.passages]]


def _sentence_transformers(folder: str) -> Callable[[Sequence[str]], np.ndarray]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


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
