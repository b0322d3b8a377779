"""A classifier of tokenised pairs as a re-ranker."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PairTokens
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row


def relevance(logits: np.ndarray, name: str) -> np.ndarray:
    """One raw logit per pair.

    Args:
        logits: [n] or [n, 1], taken as they are; or [n, 2] (not relevant, relevant), whose difference is the
            log-odds of relevance.
        name: the model, for the message.

    Returns:
        float64 [n].
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim == 1:
        return logits
    if logits.ndim == 2 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    raise wrong_outputs(name, logits.shape[1] if logits.ndim == 2 else "no row of")


def wrong_outputs(name: str, count: object) -> TourError:
    """The complaint about a model that is no re-ranker."""
    return TourError(f"{name} gives {count} outputs per pair; a re-ranker has one or two, choose another model.")


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
