"""From a checkpoint to an ONNX graph."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.errors import first_line
from tour_pyserini.rerankers.graph_cache import NoGraph
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.torch_classifier import TorchClassifier, inputs_of
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.optional import imported

LARGEST = 1_900_000_000
"""Bytes of weights: a graph's file holds 2 GB at most."""
TOLERANCE = 1e-3
"""Logits by which a graph may differ from its model; rounding makes about 1e-5."""


def export(model: Any, rows: Sequence[Row], fill: Mapping[str, int], path: Path) -> None:
    """Write the graph of a sequence classifier to `path`, and make sure that its logits are the model's.

    The graph takes one pair at a time, without padding and so without a mask.

    Args:
        model: in single precision on the CPU; it is changed and should not be used afterwards.
        rows: tokenised pairs of different lengths to compare on; the first one is traced.
        fill: what rows are padded with.
        path: where to.

    Raises:
        NoGraph: when the model cannot be exported, or the graph's logits are not the model's.
    """
    imported("onnx", extra="onnx")
    if sum(weight.nbytes for weight in model.parameters()) > LARGEST:
        raise NoGraph("the model is too large for one ONNX file")
    wanted = [_logits(model, row) for row in rows]
    TorchClassifier(model, Options(), rows[:2], fill)  # shortens the last layer
    names = [name for name in inputs_of(model, rows) if name != "attention_mask"]
    try:
        _write(model, rows[0], names, path)
        graph = OnnxClassifier(path, Options())
        given = [graph(padded([row], {})) for row in rows]
    except Exception as error:
        raise NoGraph(f"the model cannot be exported to ONNX ({first_line(error)[:200]})") from error
    worst = max(float(np.abs(one - other).max()) for one, other in zip(given, wanted, strict=True))
    if not worst <= TOLERANCE:
        raise NoGraph(f"the model's ONNX graph gives other logits than the model, by {worst:.2g}")


class _Logits(torch.nn.Module):
    """A model that takes its inputs in a row and returns logits alone."""

    def __init__(self, model: Any, names: Collection[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True))).logits


def _logits(model: Any, row: Row) -> np.ndarray:
    with torch.inference_mode():
        inputs = padded([row], {})
        return model(**{name: torch.from_numpy(inputs[name]) for name in inputs_of(model, [row])}).logits.numpy()


def _write(model: Any, row: Row, names: Sequence[str], path: Path) -> None:
    model.set_attn_implementation("eager")  # ONNX Runtime runs its graph some 3 % faster than that of "sdpa"
    inputs = padded([row], {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's age, and lengths that are constant as they should be
        torch.onnx.export(
            _Logits(model, names),
            tuple(torch.from_numpy(inputs[name]) for name in names),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {1: "length"} for name in names},
            opset_version=17,
            dynamo=False,  # the newer exporter needs one package more, onnxscript
        )
