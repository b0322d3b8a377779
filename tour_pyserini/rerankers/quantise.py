"""8-bit weights for ONNX graphs."""

import contextlib
import logging
import mmap
from collections.abc import Iterator
from pathlib import Path

from tour_pyserini.errors import first_line
from tour_pyserini.rerankers.graph_cache import NoGraph
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.optional import imported

WIDE = {"avx512_vnni", "avx_vnni", "amx_int8"}
"""Instruction sets that add products of 8-bit numbers without overflow; others need weights of 7 bits."""


def recipe() -> str:
    """How graphs are quantised on this machine: part of a fingerprint, because it changes scores."""
    return f"int8 dynamic, MatMul, per channel, {7 if _reduced() else 8} bits"


def quantise(graph: Path, path: Path) -> None:
    """Write a copy of `graph` to `path` whose matrix products have 8-bit weights and dynamic 8-bit activations.

    Embeddings and the head stay as they are: they take no time. One scale per output channel costs no time either and
    brings logits closer to those of fp32.

    Raises:
        NoGraph: when it cannot be quantised.
    """
    imported("onnx", extra="onnx")
    quantisation = imported("onnxruntime.quantization", extra="onnx")
    try:
        with _quiet():
            quantisation.quantize_dynamic(
                graph,
                path,
                weight_type=quantisation.QuantType.QInt8,
                per_channel=True,
                reduce_range=_reduced(),
                op_types_to_quantize=["MatMul"],
            )
    except Exception as error:
        raise NoGraph(f"{graph} cannot be quantised ({first_line(error)}); use the precision fp32.") from error


def dynamically_quantised(graph: Path) -> bool:
    """Whether a graph computes the scale of its activations from what it is given."""
    if not graph.stat().st_size:
        return False
    with open(graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"DynamicQuantizeLinear") >= 0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's advice about image models, which it gives in nobody's name."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _reduced() -> bool:
    return not WIDE & set(cpu_flags() or ())
