"""What re-rankers that run a model share: chunks, batches, and the caller's order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row, length_sorted_batches, padded

CHUNK = 1024
"""Distinct pairs tokenised at a time: enough to sort well, and the bound on memory."""


class BatchedReranker(ABC):
    """A re-ranker that tokenises pairs, batches them by length and runs a model.

    Subclasses say how to tokenise and how to run one batch; with `workers` > 1, batches run concurrently.
    """

    on_progress: Callable[[int], None] | None = None

    def __init__(
        self,
        name: str,
        fingerprint: str,
        *,
        budget: int,
        largest: int | None,
        fill: Mapping[str, int],
        pad_left: bool = False,
        workers: int = 1,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._budget = budget
        self._largest = largest
        self._fill = fill
        self._pad_left = pad_left
        self._workers = workers

    @abstractmethod
    def _encode(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise the pairs of each chunk, cut to the maximum length."""

    @abstractmethod
    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Raw logits [n] of n padded rows."""

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)], of which repeated pairs share one; higher is more relevant."""
        places: dict[Pair, list[int]] = {}
        for place, (query, text) in enumerate(pairs):
            places.setdefault((_sound(query), _sound(text)), []).append(place)
        # The pairs of a passage stand together, so that it is tokenised once.
        met: dict[str, int] = {}
        distinct = sorted(places, key=lambda pair: met.setdefault(pair[1], len(met)))
        chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
        scores = np.empty(len(pairs))
        pool = ThreadPoolExecutor(self._workers)
        try:
            for chunk, rows in zip(chunks, self._encode(chunks), strict=True):
                for batch, result in self._batches(rows, pool):
                    where = [places[chunk[index]] for index in batch]
                    for same, score in zip(where, result, strict=True):
                        scores[same] = score
                    if self.on_progress is not None:
                        self.on_progress(sum(map(len, where)))
        finally:
            pool.shutdown(cancel_futures=True)  # an interruption does not wait for the rest of the chunk
        return scores

    def _batches(self, rows: Sequence[Row], pool: ThreadPoolExecutor) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The indexes and scores of rows, batch by batch."""
        lengths = [len(row["input_ids"]) for row in rows]
        batches = list(length_sorted_batches(lengths, budget=self._budget, largest=self._largest))
        inputs = ([rows[index] for index in batch] for batch in batches)
        results = pool.map(self._scores, inputs) if self._workers > 1 else map(self._scores, inputs)
        return zip(batches, results, strict=True)

    def _scores(self, rows: Sequence[Row]) -> np.ndarray:
        return self._forward(padded(rows, self._fill, left=self._pad_left))


def _sound(text: str) -> str:
    # JSON may hold half a surrogate pair, which no tokenizer takes.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
