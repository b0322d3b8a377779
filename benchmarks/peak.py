"""The machine's arithmetic peak, by a product of matrices on all cores."""

import time
from functools import lru_cache

SIZES = (1024, 2048, 4096)


@lru_cache
def peak(*, quick: bool = False) -> float:
    """Floating-point operations per second of the fastest fp32 product; a multiplication and an addition are two."""
    import torch

    best = 0.0
    for size in SIZES[: 1 if quick else None]:
        a, b = torch.rand(size, size), torch.rand(size, size)
        for _ in range(2 if quick else 6):
            start = time.perf_counter()
            a @ b
            best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best
