"""A re-ranker that runs elsewhere and is asked over HTTP."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.description import PRECISIONS, Description
from tour_pyserini.rerankers.remote.rerank_endpoint import RerankEndpoint
from tour_pyserini.rerankers.reranker import Pair, Part, joined
from tour_pyserini.support.background_loop import items_from_background
from tour_pyserini.support.batching import encodable
from tour_pyserini.support.json_service import RefusedError
from tour_pyserini.support.model_files import fingerprint

BATCH_SIZE = 32
SMALLEST_PROBABILITY = 1e-7
"""Probabilities are cut to this distance from 0 and 1, which makes logits of 16.1 at most.

Services compute them in single precision, whose probabilities near 1 are 6e-8 apart."""
CONFIRM_EVERY = 1.0
"""Seconds between two questions whether the service still runs the same model."""
TOO_LARGE = 413

Indexes = Mapping[str, Mapping[str, Sequence[int]]]
"""The positions of pairs by query and passage."""


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
        identity: what the fingerprint is made of.
        description: how the model is run, for people.
    """

    def __init__(self, endpoint: RerankEndpoint, *, raw: bool, batch_size: int | None, requests: int) -> None:
        served, dialect = endpoint.served, endpoint.dialect
        self.name = str(endpoint.address)
        self.on_progress: Callable[[int], None] | None = None
        self._endpoint, self._raw, self._requests = endpoint, raw, requests
        self._batch_size = min(batch_size or BATCH_SIZE, served.largest_batch or batch_size or BATCH_SIZE)
        self.identity = {
            "dialect": dialect.NAME,
            "model": served.model,
            "revision": " ".join(word for word in (served.revision, endpoint.address.revision) if word) or None,
            "dtype": served.dtype,
            "max_length": served.max_length,
            "scores": "raw" if raw else f"logits of probabilities, cut at {SMALLEST_PROBABILITY}",
        }
        self.fingerprint = fingerprint("service", [], **self.identity)
        dtype = served.dtype or "the service's own"
        self.description = Description(
            family=" ".join(word for word in (served.model, self.identity["revision"]) if isinstance(word, str)),
            score="raw" if raw else "logit of a probability",
            prompt="the service's own, if any",
            engine=f"{dialect.TITLE} at {endpoint.service.base}{endpoint.path}",
            precision=PRECISIONS.get(dtype, dtype),
            dtype=dtype,
            max_length=served.max_length,
        )

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Ask for raw logits, float64 [len(pairs)]; repeated pairs are asked for once; higher is more relevant.

        Raises:
            TourError: if the service is away, gives a wrong answer, or no longer runs the same model.
        """
        return joined(self.predict_parts(pairs), len(pairs))

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Ask for the same logits, and yield them about a second after they arrive at the latest.

        Before they are yielded, the service has told again that it runs the same model: it may have been started anew.
        """
        indexes: dict[str, dict[str, list[int]]] = {}
        for index, (query, passage) in enumerate(pairs):
            indexes.setdefault(encodable(query), {}).setdefault(encodable(passage), []).append(index)
        with closing(items_from_background(partial(self._ask, indexes))) as parts:
            for positions, scores in parts:
                if self.on_progress is not None:
                    self.on_progress(len(positions))
                yield positions, scores

    async def _ask(self, indexes: Indexes, hand_over: Callable[[Part], None]) -> None:
        batches = _batches(indexes, self._batch_size)
        arrived: list[Part] = []
        confirmed_at = time.monotonic()

        async def confirm(retries: int | None = None) -> None:
            nonlocal arrived, confirmed_at
            confirmed_at = time.monotonic()
            parts, arrived = arrived, []  # those that arrive from now on are confirmed the next time
            await self._endpoint.check_model(retries=retries)
            for part in parts:
                hand_over(part)

        async def work() -> None:
            for query, passages in batches:  # shared: each worker takes the next batch
                scores = await self._scores(query, passages)
                repeated = [indexes[query][passage] for passage in passages]
                positions = np.array([index for same in repeated for index in same])
                arrived.append((positions, np.repeat(scores, [len(same) for same in repeated])))
                if time.monotonic() - confirmed_at >= CONFIRM_EVERY:
                    await confirm()

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._requests):
                    workers.create_task(work())
        except ExceptionGroup as failures:
            with suppress(TourError):
                await confirm(retries=0)  # what arrived before the failure is not lost
            raise failures.exceptions[0] from None
        if arrived:
            await confirm()

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


def _batches(indexes: Indexes, size: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Each query with at most `size` of its passages at a time."""
    for query, by_passage in indexes.items():
        passages = list(by_passage)
        for start in range(0, len(passages), size):
            yield query, passages[start : start + size]
