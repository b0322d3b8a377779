"""The paired randomisation test: how often would chance flip signs to a mean as far from 0?"""

import numpy as np

ENUMERATED_UP_TO = 12
SAMPLES = 100_000
SEED = 20230709
# Signs held in memory at once; 8 bytes each.
_HELD = 1 << 20


def randomisation_p(gained: np.ndarray) -> float:
    """The two-sided p value of a mean gain under random signs.

    All sign patterns are enumerated when at most 12 gains differ from 0, and 100,000 are sampled otherwise, always the
    same ones. Gains of 0 have no sign to flip and change nothing.

    Args:
        gained: differences between two runs, float64 [queries].

    Returns:
        A value in (0, 1].

    Example:
        >>> randomisation_p(np.array([0.1, 0.2, 0.3]))  # 2 of the 8 patterns are as extreme
        0.25
    """
    nonzero = gained[gained != 0]
    return enumerated_p(nonzero) if nonzero.size <= ENUMERATED_UP_TO else sampled_p(nonzero)


def enumerated_p(gained: np.ndarray) -> float:
    """The exact share of all 2^n sign patterns whose sum is at least as far from 0."""
    patterns = np.arange(1 << gained.size, dtype=np.uint64)
    flips = (patterns[:, None] >> np.arange(gained.size, dtype=np.uint64)) & np.uint64(1)
    return _as_extreme(flips, gained) / patterns.size


def sampled_p(gained: np.ndarray, samples: int = SAMPLES, seed: int = SEED) -> float:
    """The same from random sign patterns: (1 + those as extreme) / (1 + samples)."""
    random = np.random.default_rng(seed)
    width = -(-gained.size // 8)
    count, left = 0, samples
    while left:
        rows = min(left, max(1, _HELD // max(gained.size, 1)))
        packed = random.integers(0, 256, size=(rows, width), dtype=np.uint8)
        count += _as_extreme(np.unpackbits(packed, axis=1, count=gained.size), gained)
        left -= rows
    return (1 + count) / (1 + samples)


def _as_extreme(flips: np.ndarray, gained: np.ndarray) -> int:
    """How many rows of flips (0 or 1) [patterns, n] leave a sum at least as far from 0 as the gains' own."""
    total = gained.sum()
    sums = total - 2 * (flips.astype(np.float64) @ gained)
    # Patterns that are equal on paper must count, whatever the order of addition made of them.
    slack = 1e-12 * np.abs(gained).sum()
    return int((np.abs(sums) >= abs(total) - slack).sum())
