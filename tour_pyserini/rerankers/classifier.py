"""A classifier of tokenised pairs, whatever runs it, as a re-ranker."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.batching import Row
from tour_pyserini.rerankers.logits import relevance
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PairTokens


class Classifier(Protocol):
    """What runs a model: a back end.

    Attributes:
        backend: its name, as `--backend` takes it.
        alone: whether it wants one pair per call, unpadded.
        workers: how many calls it wants at once.
    """

    backend: str
    alone: bool
    workers: int

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits [n] or [n, labels] of inputs that are int64 [n, length] each; it may get more inputs than it reads."""
        ...


class ClassifierReranker(BatchedReranker):
    """A classifier with one logit, or with two whose difference is the log-odds of relevance."""

    def __init__(
        self,
        name: str,
        fingerprint: str,
        tokens: PairTokens,
        classifier: Classifier,
        options: Options,
        *,
        fill: Mapping[str, int],
        pad_left: bool = False,
        alone: bool = False,
    ) -> None:
        self.backend = classifier.backend
        self._tokens = tokens
        self._classifier = classifier
        super().__init__(
            name,
            fingerprint,
            budget=options.token_budget,
            largest=1 if alone or classifier.alone else options.batch_size,
            fill=fill,
            pad_left=pad_left,
            workers=classifier.workers,
        )

    def _encode(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        return self._tokens.rows(chunks)

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        return relevance(self._classifier(batch), self.name)
