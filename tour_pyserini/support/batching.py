"""Batches of like lengths, and padding them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

Row = Mapping[str, Sequence[int] | np.ndarray]
"""One tokenised pair: the model's input names (`input_ids`, ...) and the integers of each, all of one length."""


def length_sorted_batches(lengths: Sequence[int], *, budget: int, largest: int | None = None) -> Iterator[np.ndarray]:
    """Cut rows into batches of neighbouring lengths, longest first.

    A batch holds as many rows as fit `budget` when each is padded to the batch's longest, and always at least one.
    Longest first, because memory then peaks at the start, where a failure costs least.

    Args:
        lengths: tokens of each row.
        budget: padded tokens per batch.
        largest: rows per batch at most.

    Yields:
        Indexes into `lengths`; every index appears in exactly one batch.

    Example:
        >>> [batch.tolist() for batch in length_sorted_batches([2, 9, 4, 3], budget=9)]
        [[1], [2, 3], [0]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        if largest is not None:
            size = min(size, largest)
        yield order[start : start + size]
        start += size


def padded(rows: Sequence[Row], fill: Mapping[str, int], *, left: bool = False) -> dict[str, np.ndarray]:
    """Stack rows into one array per input, int64 [len(rows), longest].

    Args:
        rows: tokenised pairs with the same input names.
        fill: what each input is padded with; 0 when not named.
        left: pad at the start of a row instead of its end.
    """
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {name: np.full((len(rows), longest), fill.get(name, 0), dtype=np.int64) for name in rows[0]}
    for index, row in enumerate(rows):
        for name, values in row.items():
            place = slice(longest - len(values), None) if left else slice(len(values))
            batch[name][index, place] = values
    return batch
