"""Re-rankers that are sequence classifiers: the interface of back ends, and logits of relevance."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.description import Description
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PairTokens
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row


def relevance_logits(logits: np.ndarray, name: str) -> np.ndarray:
    """Convert the output of a classifier to one raw logit per pair.

    Args:
        logits: [n] or [n, 1], used as they are; or [n, 2] (not relevant, relevant), whose difference is the
            log-odds of relevance.
        name: the name of the model, for the message.

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
    raise output_count_error(name, logits.shape[1] if logits.ndim == 2 else "no row of")


def output_count_error(name: str, count: object) -> TourError:
    """Make the error for a model with a wrong number of outputs."""
    return TourError(f"{name} gives {count} outputs per pair, but a re-ranker has one or two; choose another model.")


class Classifier(Protocol):
    """A back end with a loaded model: it computes the logits of tokenised pairs.

    Attributes:
        backend: the name of the back end, "onnx" or "torch".
        one_pair_per_call: whether each call gets a single pair without padding.
        workers: number of calls that run concurrently.
    """

    backend: str
    one_pair_per_call: bool
    workers: int

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute logits [n] or [n, labels]; inputs are int64 [n, length], those the model lacks are ignored."""
        ...


class ClassifierReranker(BatchedReranker):
    """A re-ranker whose classifier has one logit, or two logits whose difference is the log-odds of relevance."""

    def __init__(
        self,
        name: str,
        fingerprint: str,
        description: Description,
        tokens: PairTokens,
        classifier: Classifier,
        options: Options,
        *,
        fill: Mapping[str, int],
        pad_left: bool = False,
        one_pair_per_call: bool = False,
    ) -> None:
        self.backend = classifier.backend
        self._tokens = tokens
        self._classifier = classifier
        super().__init__(
            name,
            fingerprint,
            description,
            budget=options.token_budget,
            largest=1 if one_pair_per_call or classifier.one_pair_per_call else options.batch_size,
            fill=fill,
            pad_left=pad_left,
            workers=classifier.workers,
        )

    def _encode(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        return self._tokens.rows(chunks)

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        return relevance_logits(self._classifier(batch), self.name)
