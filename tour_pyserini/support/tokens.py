"""Token sequences: cut them to a length, group them into batches, and pad these."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.support.packages import import_optional

Row = Mapping[str, Sequence[int] | np.ndarray]
"""One tokenised text or pair: the model's input names (`input_ids`, ...), each with its integers, all equally long."""


def length_sorted_batches(lengths: Sequence[int], *, budget: int, largest: int | None = None) -> Iterator[np.ndarray]:
    """Split rows into batches of similar length, longest first.

    A batch has as many rows as fit into `budget` when each is padded to the longest of the batch, and at least one.
    The longest come first because they need the most memory: if memory is too small, this shows at the start.

    Args:
        lengths: number of tokens of each row.
        budget: most tokens per batch, padding included.
        largest: most rows per batch.

    Yields:
        Positions in `lengths`; every position is in exactly one batch.

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
        rows: tokenised texts or pairs with the same input names.
        fill: padding value of each input; 0 for inputs that are not named.
        left: pad at the start of a row instead of at its end.
    """
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {name: np.full((len(rows), longest), fill.get(name, 0), dtype=np.int64) for name in rows[0]}
    for index, row in enumerate(rows):
        for name, values in row.items():
            columns = slice(longest - len(values), None) if left else slice(len(values))
            batch[name][index, columns] = values
    return batch


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON may contain and tokenizers refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def token_cutter(tokenizer: Any, *, max_length: int, direction: str, strategy: str = "longest_first") -> Any:
    """A tokenizer whose `post_process` cuts an encoding, or two, and adds the special tokens of another tokenizer.

    A `tokenizers.Tokenizer` has one truncation, for all threads: one that is switched during a call gives another
    thread rows of a wrong length. This one never changes, and leaves the other tokenizer as it is. It has no
    vocabulary, so that it is small.

    Args:
        tokenizer: the `tokenizers.Tokenizer` that made the encodings, without special tokens.
        max_length: tokens, including special tokens.
        direction: the side on which texts are cut, "right" or "left".
        strategy: which text of a pair is cut, as tokenizers call it.
    """
    tokenizers = import_optional("tokenizers")
    cutter = tokenizers.Tokenizer(tokenizers.models.WordLevel({}, unk_token=""))
    if tokenizer.post_processor is not None:
        cutter.post_processor = tokenizer.post_processor
    cutter.enable_truncation(max_length, strategy=strategy, direction=direction)
    return cutter


class CallLock:
    """A lock for calls that change the state of an object, such as the truncation of a tokenizer.

    An object that has it can be pickled, which one with a lock of `threading` cannot; the copy's lock is its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return CallLock, ()
