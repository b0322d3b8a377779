"""Base class of re-rankers that run a model: it tokenises in chunks, batches by length and restores the order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tour_pyserini.rerankers.description import Description
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row, encodable, length_sorted_batches, padded

CHUNK = 1024
"""Distinct pairs tokenised at a time: enough for batches of similar lengths, few enough to limit memory."""


class BatchedReranker(ABC):
    """A re-ranker that tokenises pairs, batches them by length and runs a model.

    Subclasses implement `_encode` (tokenise) and `_forward` (run one batch).

    Args:
        name: the name of the model, for messages.
        fingerprint: identifies the model and everything else a score depends on.
        description: how the model is run.
        budget: padded tokens per batch.
        largest: largest number of pairs per batch, if any.
        fill: the value that each input is padded with.
        pad_left: pad at the start of a row instead of its end.
        workers: number of batches that run concurrently.
    """

    on_progress: Callable[[int], None] | None = None

    def __init__(
        self,
        name: str,
        fingerprint: str,
        description: Description,
        *,
        budget: int,
        largest: int | None,
        fill: Mapping[str, int],
        pad_left: bool = False,
        workers: int = 1,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.description = description
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
        """Compute raw logits [n] of n padded rows."""

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; repeated pairs are scored once; higher is more relevant."""
        indexes: dict[Pair, list[int]] = {}
        for index, (query, passage) in enumerate(pairs):
            indexes.setdefault((encodable(query), encodable(passage)), []).append(index)
        # Pairs with the same passage are neighbours, so that the passage is tokenised once.
        passage_order: dict[str, int] = {}
        distinct = sorted(indexes, key=lambda pair: passage_order.setdefault(pair[1], len(passage_order)))
        chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
        scores = np.empty(len(pairs))
        pool = ThreadPoolExecutor(self._workers)
        try:
            for chunk, rows in zip(chunks, self._encode(chunks), strict=True):
                for batch, batch_scores in self._batches(rows, pool):
                    targets = [indexes[chunk[row]] for row in batch]
                    for repeated, score in zip(targets, batch_scores, strict=True):
                        scores[repeated] = score
                    if self.on_progress is not None:
                        self.on_progress(sum(map(len, targets)))
        finally:
            pool.shutdown(cancel_futures=True)  # after an interruption, the rest of the chunk is not scored
        return scores

    def _batches(self, rows: Sequence[Row], pool: ThreadPoolExecutor) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Score rows batch by batch: row numbers and scores of each batch."""
        lengths = [len(row["input_ids"]) for row in rows]
        batches = list(length_sorted_batches(lengths, budget=self._budget, largest=self._largest))
        inputs = ([rows[index] for index in batch] for batch in batches)
        results = pool.map(self._scores, inputs) if self._workers > 1 else map(self._scores, inputs)
        return zip(batches, results, strict=True)

    def _scores(self, rows: Sequence[Row]) -> np.ndarray:
        return self._forward(padded(rows, self._fill, left=self._pad_left))
