"""Where models run, and how many threads torch and FAISS may use."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tour_pyserini.errors import TourError, first_line


def on_device(model: Any, device: str, *, name: object = "the model") -> Any:
    """The torch module, moved to a device: `cpu`, `cuda:0`, ...

    Raises:
        TourError: if this machine, or this build of torch, has no such device.
    """
    try:
        return model.to(device)
    except Exception as error:  # torch has several for this
        raise TourError(f"{name} cannot run on the device {device!r} ({first_line(error)}); use cpu.") from error


@contextlib.contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Run torch on that many threads for a while; None leaves its setting alone."""
    import torch

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def faiss_threads(threads: int | None) -> Iterator[None]:
    """Run FAISS on that many threads for a while; None leaves its setting alone.

    Where both use one OpenMP the setting is torch's too, and left behind it would slow torch down.
    """
    import faiss

    before = faiss.omp_get_max_threads()
    if threads is not None:
        faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
