"""A re-ranker that runs elsewhere and is asked over HTTP."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.batched import encodable
from tour_pyserini.rerankers.remote.rerank_endpoint import RerankEndpoint
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.background_loop import run_in_background
from tour_pyserini.support.checkpoints import fingerprint
from tour_pyserini.support.json_service import RefusedError

BATCH_SIZE = 32
SMALLEST_PROBABILITY = 1e-7
"""Probabilities are cut to this distance from 0 and 1, which makes logits of 16.1 at most.

Services compute them in single precision, whose probabilities near 1 are 6e-8 apart."""
TOO_LARGE = 413


class RemoteReranker:
    """A service that scores passages, asked in batches of one query, several of them at a time.

    A score depends on its pair alone, if it does so in the service: batches and their order do not matter.

    Args:
        endpoint: where scores are asked from.
        raw: whether they are raw logits; if not, they are probabilities.
        batch_size: most passages of a request, if the service takes that many.
        requests: most requests at a time.

    Attributes:
        name: the address, for messages.
        fingerprint: made of the dialect, the model and the kind of scores; the same model on another host has the same.
        description: how the model is run, for people.
    """

    def __init__(self, endpoint: RerankEndpoint, *, raw: bool, batch_size: int | None, requests: int) -> None:
        served, dialect = endpoint.served, endpoint.dialect
        self.name = str(endpoint.address)
        self.on_progress: Callable[[int], None] | None = None
        self._endpoint, self._raw, self._requests = endpoint, raw, requests
        self._batch_size = min(batch_size or BATCH_SIZE, served.largest_batch or batch_size or BATCH_SIZE)
        identity = {
            "model": served.model,
            "revision": " ".join(word for word in (served.revision, endpoint.address.revision) if word) or None,
            "dtype": served.dtype,
            "max_length": served.max_length,
            "scores": "raw" if raw else f"logits of probabilities, cut at {SMALLEST_PROBABILITY}",
        }
        self.fingerprint = fingerprint(f"service-{dialect.NAME}", [], **identity)
        self.description = {
            "engine": f"a service that speaks {dialect.TITLE}",
            "address": f"{endpoint.service.base}{endpoint.path}",
            **identity,
        }

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Ask for raw logits, float64 [len(pairs)]; repeated pairs are asked for once; higher is more relevant.

        Raises:
            TourError: if the service is away, gives a wrong answer, or no longer runs the same model.
        """
        indexes: dict[str, dict[str, list[int]]] = {}
        for index, (query, passage) in enumerate(pairs):
            indexes.setdefault(encodable(query), {}).setdefault(encodable(passage), []).append(index)
        scores = np.empty(len(pairs))
        if len(pairs):
            run_in_background(self._fill(scores, indexes))
        return scores

    async def _fill(self, scores: np.ndarray, indexes: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        batches = _batches(indexes, self._batch_size)

        async def work() -> None:
            for query, passages in batches:  # shared: each worker takes the next batch
                found = await self._scores(query, passages)
                targets = [indexes[query][passage] for passage in passages]
                for repeated, score in zip(targets, found, strict=True):
                    scores[repeated] = score
                if self.on_progress is not None:
                    self.on_progress(sum(map(len, targets)))

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._requests):
                    workers.create_task(work())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        # The model may have been replaced meanwhile; its labels must not be kept as those of the first one.
        await self._endpoint.check_model()

    async def _scores(self, query: str, passages: Sequence[str]) -> np.ndarray:
        try:
            scores = await self._endpoint.scores(query, passages, raw=self._raw)
        except RefusedError as error:
            if error.status != TOO_LARGE or len(passages) == 1:
                raise
            half = len(passages) // 2
            return np.concatenate([await self._scores(query, part) for part in (passages[:half], passages[half:])])
        return scores if self._raw else self._logits(scores)

    def _logits(self, probabilities: np.ndarray) -> np.ndarray:
        wrong = probabilities[(probabilities < 0) | (probabilities > 1)]
        if len(wrong):
            raise TourError(
                f"the service {self.name} gave the score {wrong[0]}, which is no probability; if it gives raw scores, "
                "add the option scores=raw to its address."
            )
        kept = np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return np.log(kept) - np.log1p(-kept)


def _batches(indexes: Mapping[str, Mapping[str, Sequence[int]]], size: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Each query with at most `size` of its passages at a time."""
    for query, by_passage in indexes.items():
        passages = list(by_passage)
        for start in range(0, len(passages), size):
            yield query, passages[start : start + size]
