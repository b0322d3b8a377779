"""Export a checkpoint to an ONNX graph, and check that the graph gives the same logits."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.errors import first_line
from tour_pyserini.rerankers.first_token import shorten_last_layer
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.torch_classifier import inputs_of
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.onnx_graphs import GraphError, write_graph
from tour_pyserini.support.optional import import_optional

MAX_BYTES = 1_900_000_000
"""Largest size of the weights: a file with an ONNX graph cannot exceed 2 GB."""
TOLERANCE = 1e-3
"""Allowed difference between logits of the graph and of the model; rounding causes about 1e-5."""


def export(model: Any, rows: Sequence[Row], fill: Mapping[str, int], path: Path) -> None:
    """Write a sequence classifier as an ONNX graph to `path`, and check that its logits equal those of the model.

    The graph takes one pair at a time, so it needs no padding and no attention mask.

    Args:
        model: in single precision on the CPU; it is changed and should not be used afterwards.
        rows: tokenised pairs of different lengths to compare logits on; the last and longest one is traced, because
            models with a sliding window of attention leave the window out of the graph of a shorter pair.
        fill: the value that each input is padded with.
        path: the file to write.

    Raises:
        GraphError: when the model cannot be exported, or the graph gives other logits than the model.
    """
    import_optional("onnx", extra="onnx")
    if sum(weight.nbytes for weight in model.parameters()) > MAX_BYTES:
        raise GraphError("the model is too large for one ONNX file")
    names = [name for name in inputs_of(model, rows) if name != "attention_mask"]
    try:
        expected = [_logits(model, row) for row in rows]
        shorten_last_layer(model, _tensors(model, rows[:2], fill))
        _write(model, rows[-1], names, path)
        graph = OnnxClassifier(path, Options())
        actual = [graph(padded([row], {})) for row in rows]
    except Exception as error:
        raise GraphError(f"the model cannot be exported to ONNX ({first_line(error)[:200]})") from error
    difference = max(float(np.abs(a - b).max()) for a, b in zip(actual, expected, strict=True))
    if not difference <= TOLERANCE:  # also true for NaN
        raise GraphError(f"the model's ONNX graph gives other logits than the model (difference {difference:.2g})")


class _Logits(torch.nn.Module):
    """A model whose inputs are positional arguments and whose output is the logits, as the exporter needs it."""

    def __init__(self, model: Any, names: Collection[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True))).logits


def _logits(model: Any, row: Row) -> np.ndarray:
    with torch.inference_mode():
        return model(**_tensors(model, [row], {})).logits.numpy()


def _tensors(model: Any, rows: Sequence[Row], fill: Mapping[str, int]) -> dict[str, torch.Tensor]:
    inputs = padded(rows, fill)
    return {name: torch.from_numpy(inputs[name]) for name in inputs_of(model, rows)}


def _write(model: Any, row: Row, names: Sequence[str], path: Path) -> None:
    model.set_attn_implementation("eager")  # its graph is about 3 % faster in ONNX Runtime than that of "sdpa"
    inputs = padded([row], {})
    write_graph(_Logits(model, names), {name: inputs[name] for name in names}, path, output="logits")
