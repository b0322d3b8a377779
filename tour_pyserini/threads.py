"""How many threads torch and FAISS may use, for a while."""

import contextlib
from collections.abc import Iterator


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
