"""Quantise ONNX graphs to 8-bit weights."""

import contextlib
import logging
import mmap
from collections.abc import Iterator
from pathlib import Path

from tour_pyserini.errors import first_line
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.onnx_graphs import GraphError
from tour_pyserini.support.optional import import_optional

WITHOUT_OVERFLOW = {"avx512_vnni", "avx_vnni", "amx_int8"}
"""Instruction sets that add products of 8-bit numbers without overflow; without them, weights have 7 bits."""


def quantisation_recipe() -> str:
    """Describe how graphs are quantised on this machine; part of the fingerprint, because it changes scores."""
    return f"int8 dynamic, MatMul, per channel, {7 if _needs_7_bits() else 8} bits"


def quantise(graph: Path, path: Path) -> None:
    """Write a copy of `graph` to `path` whose matrix products have 8-bit weights and dynamic 8-bit activations.

    Embeddings and the head are not quantised, because they take little time. One scale per output channel costs no
    time either and gives logits closer to those of fp32.

    Raises:
        GraphError: when the graph cannot be quantised.
    """
    import_optional("onnx", extra="onnx")
    quantisation = import_optional("onnxruntime.quantization", extra="onnx")
    try:
        with _no_warnings():
            quantisation.quantize_dynamic(
                graph,
                path,
                weight_type=quantisation.QuantType.QInt8,
                per_channel=True,
                reduce_range=_needs_7_bits(),
                op_types_to_quantize=["MatMul"],
            )
    except Exception as error:
        raise GraphError(f"{graph} cannot be quantised ({first_line(error)})") from error


def is_dynamically_quantised(graph: Path) -> bool:
    """Whether a graph computes the scale of its activations from its inputs."""
    if not graph.stat().st_size:
        return False
    with open(graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"DynamicQuantizeLinear") >= 0


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Hide a warning about image models, which the library writes to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _needs_7_bits() -> bool:
    return not WITHOUT_OVERFLOW & set(cpu_flags() or ())
