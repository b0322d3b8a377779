"""ONNX graphs: made from a torch module, quantised, kept in the cache folder, and opened with ONNX Runtime."""

import logging
import mmap
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.devices import cpu_flags
from tour_pyserini.support.files import (
    atomic_replace,
    atomic_write,
    cache_home,
    content_hash,
    full_disk,
    read_memo,
    sha256,
    unwritable,
    write_memo,
)
from tour_pyserini.support.packages import import_optional, version_of

log = logging.getLogger(__name__)

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "onnx", "onnxruntime")

WITHOUT_OVERFLOW = {"avx512_vnni", "avx_vnni", "amx_int8"}
"""Instruction sets that add products of 8-bit numbers without overflow; without them, weights have 7 bits."""


_LARGEST = 1_900_000_000  # bytes of weights: a file with an ONNX graph cannot exceed 2 GB


def onnx_is_faster(device: str) -> bool:
    """Whether ONNX Runtime is installed and faster than torch on this machine.

    On x86 processors with AVX2 or AVX-512 it was measured to be. Other processors were not measured; they use torch,
    which needs no export. GPUs use torch too.
    """
    return device == "cpu" and "avx2" in (cpu_flags() or ()) and all(map(find_spec, ("onnx", "onnxruntime")))


class GraphError(TourError):
    """A graph cannot be made or stored; the model itself may still be usable by another back end."""


def cached_graph(key: str, make: Callable[[Path], None]) -> Path:
    """Return the path of the graph with that key in the cache folder; a missing graph is made first.

    Its checksum is stored in a file next to it: a truncated or changed graph is made again. If several processes need
    the same graph, one makes it and the others wait. A failure is kept as a memo: it is tried again when a library that
    takes part has another version.

    Args:
        key: a hash of everything the graph depends on.
        make: a function that writes the graph to the path it gets.

    Raises:
        GraphError: when the cache folder cannot be written, or when `make` fails, now or before.
        TourError: when the disk is full, or when `make` raises it.
    """
    versions = [f"{name} {version_of(name)}" for name in _LIBRARIES]
    if reason := read_memo("graph", key, versions):
        raise GraphError(reason)
    path = cache_home() / "graphs" / f"{key}.onnx"
    checksum_path = path.with_suffix(".sha256")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = import_optional("filelock").FileLock(path.with_suffix(".lock")).acquire()
    except OSError as error:
        raise GraphError(
            f"{path.parent} cannot be written ({error.strerror or error}): set TOUR_PYSERINI_CACHE to another folder"
        ) from error
    with lock:
        if not _is_intact(path, checksum_path):
            if path.exists():
                log.warning("%s is damaged and is written again", path)
            try:
                with atomic_replace(path) as partial:
                    _made(make, partial)
            except GraphError as error:
                if full_disk(error):  # no reason to run the model in another way, with other rounding
                    raise unwritable(path, error) from error
                if not isinstance(error.__cause__, OSError | MemoryError):
                    write_memo("graph", key, versions, str(error))
                raise
            with atomic_write(checksum_path) as file:
                file.write(sha256(path))
    return path


def _made(make: Callable[[Path], None], path: Path) -> None:
    try:
        make(path)
    except TourError:
        raise
    except Exception as error:  # exporters raise errors of many types
        raise GraphError(f"the model cannot be exported to ONNX ({first_line(error)[:200]})") from error


def write_graph(
    model: Any, compute: Callable[[dict[str, Any]], Any], inputs: Mapping[str, np.ndarray], path: Path, *, output: str
) -> None:
    """Write a torch module as an ONNX graph whose inputs have any length.

    Args:
        model: the module, which is traced.
        compute: gives one tensor from the inputs by name, with `model`.
        inputs: an example [1, length] of each input, by name.
        path: the file to write.
        output: the name of the output.

    Raises:
        GraphError: if the model is too large.
    """
    import torch

    class Exported(torch.nn.Module):
        """The model with positional arguments, as the exporter needs it."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> Any:
            return compute(dict(zip(inputs, tensors, strict=True)))

    if sum(weight.nbytes for weight in model.parameters()) > _LARGEST:
        raise GraphError("the model is too large for one ONNX file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter is deprecated; traced values become constants, as intended
        torch.onnx.export(
            Exported().eval(),
            tuple(torch.from_numpy(example) for example in inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=[output],
            dynamic_axes={name: {1: "length"} for name in inputs},
            opset_version=17,
            dynamo=False,  # the newer exporter needs another package, onnxscript
        )


def open_graph(graph: Path) -> Any:
    """An ONNX Runtime session with one thread, on the CPU.

    Raises:
        GraphError: if it cannot be read.
    """
    ort = import_optional("onnxruntime")
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    try:
        return ort.InferenceSession(str(graph), sess_options=settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise GraphError(
            f"{graph} cannot be read as an ONNX model ({first_line(error)}); download it again."
        ) from error


def _is_intact(path: Path, checksum_path: Path) -> bool:
    if not path.is_file() or not checksum_path.is_file():
        return False
    return checksum_path.read_text(encoding="utf-8", errors="replace") == content_hash(path)


def quantisation_recipe() -> str:
    """Describe how graphs are quantised on this machine; part of the fingerprint, because it changes scores."""
    return f"int8 dynamic, MatMul, per channel, {7 if _needs_7_bits() else 8} bits"


def quantise(graph: Path, path: Path) -> None:
    """Write a copy of `graph` to `path` whose matrix products have 8-bit weights and dynamic 8-bit activations.

    Embeddings and the head are not quantised, because they take little time. One scale per output channel costs no
    time either and gives logits closer to those of fp32.
    """
    import_optional("onnx", extra="onnx")
    quantisation = import_optional("onnxruntime.quantization", extra="onnx")
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # such as one about image models, which the library writes to the root logger
    try:
        quantisation.quantize_dynamic(
            graph,
            path,
            weight_type=quantisation.QuantType.QInt8,
            per_channel=True,
            reduce_range=_needs_7_bits(),
            op_types_to_quantize=["MatMul"],
        )
    finally:
        logging.disable(disabled)


def is_dynamically_quantised(graph: Path) -> bool:
    """Whether a graph computes the scale of its activations from its inputs."""
    if not graph.stat().st_size:
        return False
    with open(graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"DynamicQuantizeLinear") >= 0


def _needs_7_bits() -> bool:
    return not WITHOUT_OVERFLOW & set(cpu_flags() or ())
