"""Runs classifiers of pairs with ONNX Runtime: their graphs are made once, proved against the model, and kept."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.support.devices import cores
from tour_pyserini.support.model_files import Row, fingerprint
from tour_pyserini.support.onnx_graphs import (
    GraphError,
    cached_graph,
    onnx_is_faster,
    open_graph,
    quantisation_recipe,
    quantise,
    write_graph,
)
from tour_pyserini.support.packages import import_optional

log = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17, longest probe traced"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
TOLERANCE = 1e-3
"""Allowed difference between logits of the graph and of the model; rounding causes about 1e-5."""


class OnnxRunner:
    """A classifier as an ONNX graph, on the CPU.

    The graph gets one pair per call, without padding, and there is one worker with one thread per core. The logit of a
    pair then depends only on the pair: not on other pairs, the batch size or the number of threads. A dynamically
    quantised graph chooses its scale from the whole batch, so that other pairs would change a logit by up to 0.5.

    Args:
        graph: the file.
        options: the number of threads.
    """

    # One pair per call was also the fastest (MiniLM-L-12, pairs of 40-250 tokens, AVX-512). fp32, CPU seconds of one
    # thread for 30 pairs: 1.91 with one pair per call, 1.93 in batches of 256 tokens, 2.25 in batches of 1,024. Wall
    # seconds of two cores for 40 pairs, two workers against one session of two threads: fp32 5.3 and 9.5, int8 2.5
    # and 4.1; other processes used these cores too, which slows down threads that wait for each other.
    backend = "onnx"
    one_pair_per_call = True

    def __init__(self, graph: Path, options: Options) -> None:
        if options.device != "cpu":  # in a search, the device is the encoder's too
            log.warning("the graph %s runs on cpu, not on %s", graph, options.device)
        self.workers = options.threads or cores()
        self._session = open_graph(graph)
        self._types = {
            wanted.name: np.int32 if wanted.type == "tensor(int32)" else np.int64
            for wanted in self._session.get_inputs()
        }

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Compute logits [1] or [1, labels] of a single pair."""
        (row,) = rows
        return self._session.run(None, {name: np.array([row[name]], dtype) for name, dtype in self._types.items()})[0]


def runs_on_onnx(options: Options) -> bool:
    """Whether ONNX Runtime is to run a model: it is asked for, or the faster one on this machine."""
    asked = options.backend == "onnx" or options.precision == "int8"
    return asked or (options.backend == "auto" and onnx_is_faster(options.device))


def exported_graph(
    read: Callable[[], Any], rows: Sequence[Row], fill: Mapping[str, int], files: Sequence[Path], **settings: str
) -> Path:
    """The graph of a classifier, made and proved now or before.

    The graph takes one pair at a time, so it needs no padding and no attention mask.

    Args:
        read: gives the model, in single precision on the CPU; it is changed.
        rows: tokenised pairs of different lengths; the last and longest one is traced, because models with a sliding
            window of attention leave the window out of the graph of a shorter pair.
        fill: the value that each input is padded with.
        files: the files of the model.
        settings: what else the graph depends on.

    Raises:
        GraphError: when the model cannot be exported, or the graph gives other logits than the model.
    """
    return _cached(files, partial(_export, read, rows, fill), graph=GRAPH, **settings)


def quantised_graph(graph: Path, files: Sequence[Path], /, **settings: str) -> Path:
    """A copy of a graph with 8-bit weights, made now or before; `files` and `settings` are those of the graph."""
    return _cached(files, partial(quantise, graph), **settings, precision=quantisation_recipe())


def _cached(files: Sequence[Path], make: Callable[[Path], None], **settings: str) -> Path:
    return cached_graph(fingerprint("graph", files, **settings).removeprefix("graph:"), make)


def _export(read: Callable[[], Any], rows: Sequence[Row], fill: Mapping[str, int], path: Path) -> None:
    """Write a graph to a path, and check that its logits equal those of the model."""
    import_optional("onnx", extra="onnx")
    from tour_pyserini.rerankers.torch_runner import TorchRunner, shorten_last_layer

    model = read()
    runner = TorchRunner(model, Options(), fill=fill)
    expected = [runner([row]) for row in rows]
    shorten_last_layer(model, runner.tensors(rows[:2]))
    model.set_attn_implementation("eager")  # its graph is about 3 % faster in ONNX Runtime than that of "sdpa"
    inputs = {name: tensor.numpy() for name, tensor in runner.tensors(rows[-1:]).items()}
    inputs.pop("attention_mask", None)
    write_graph(model, lambda tensors: model(**tensors).logits, inputs, path, output="logits")
    graph = OnnxRunner(path, Options())
    difference = max(np.abs(graph([row]) - logits).max() for row, logits in zip(rows, expected, strict=True))
    if not difference <= TOLERANCE:  # also true for NaN
        raise GraphError(f"the model's ONNX graph gives other logits than the model (difference {difference:.2g})")
