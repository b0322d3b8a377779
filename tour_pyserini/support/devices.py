"""Move models to devices, and limit the threads of torch and FAISS."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tour_pyserini.errors import TourError, first_line

_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16")
"""Instruction sets that affect the speed of float and 8-bit models, by their Linux names."""


def cores() -> int:
    """The number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...] | None:
    """Which of `_INSTRUCTION_SETS` the processor has, in that order; None if the system has no such file."""
    if not cpuinfo.is_file():
        return None
    words = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return tuple(flag for flag in _INSTRUCTION_SETS if flag in words)


DTYPES = ("auto", "float32", "bfloat16", "float16")
"""The numbers that a model computes with. `auto`: float32 on a CPU, what the model's files say on a GPU."""
BACKENDS = ("auto", "onnx", "torch")
"""What can run a model; `auto` is ONNX Runtime where it was measured to be faster, else torch."""
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a model is run.

    Attributes:
        device: `cpu`, `cuda:0`, ...
        dtype: `auto`, `float32`, `bfloat16` or `float16`.
        trust_remote_code: whether Python code that the model brings along may be run.
        backend: `onnx`, `torch`, or `auto`, the one that is faster on this machine; they differ by rounding.
        precision: `fp32`, or `int8` for 8-bit weights by ONNX Runtime: faster, with slightly other results.
        threads: CPU threads; None: all cores.
        batch_size: most texts or pairs that are computed at once; None: as many as fit a number of tokens.
    """

    device: str = "cpu"
    dtype: str = "auto"
    trust_remote_code: bool = False
    backend: str = "auto"
    precision: str | None = None
    threads: int | None = None
    batch_size: int | None = None

    words: ClassVar[Mapping[str, tuple[str | None, ...]]] = {
        "dtype": DTYPES,
        "backend": BACKENDS,
        "precision": (None, *PRECISIONS),
    }
    """The words that an option may be."""
    least: ClassVar[Mapping[str, int]] = {"threads": 1, "batch_size": 1}
    """The smallest number that an option may be."""

    def __post_init__(self) -> None:
        for name, allowed in self.words.items():
            if (value := getattr(self, name)) not in allowed:
                known = ", ".join(word for word in allowed if word)
                raise TourError(f"the {name} of a model is one of {known}, not {value!r}.")
        for name, least in self.least.items():
            if (number := getattr(self, name)) is not None and number < least:
                raise TourError(f"the {name} of a model is {number}; give {least} or more.")


def on_device(model: Any, device: str, *, name: object = "the model") -> Any:
    """Move a torch module to a device: `cpu`, `cuda:0`, ...

    Raises:
        TourError: if this machine, or this build of torch, has no such device.
    """
    try:
        return model.to(device)
    except Exception as error:  # torch raises errors of several types
        raise TourError(f"{name} cannot run on the device {device!r} ({first_line(error)}); use cpu.") from error


@contextlib.contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch use this many threads inside the block; None does not change its setting."""
    import torch

    with _limited(threads, torch.get_num_threads, torch.set_num_threads):
        yield


@contextlib.contextmanager
def faiss_threads(threads: int | None) -> Iterator[None]:
    """Let FAISS use this many threads inside the block; None does not change its setting.

    If FAISS and torch share one OpenMP library, they share the setting: without the reset, torch would be slow.
    """
    import faiss

    with _limited(threads, faiss.omp_get_max_threads, faiss.omp_set_num_threads):
        yield


@contextlib.contextmanager
def _limited(threads: int | None, get: Callable[[], int], put: Callable[[int], object]) -> Iterator[None]:
    before = get()
    put(threads or before)
    try:
        yield
    finally:
        put(before)
