"""Queries through the loop: encoded, with what the loop works with, and with the labels that they may buy."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.loop import Outcome, Progress, Round, optimise, rounds
from tour_pyserini.core.purse import Grant, Purse
from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder
from tour_pyserini.errors import RequestError
from tour_pyserini.searchers.passage_labels import Label, PassageLabels
from tour_pyserini.searchers.retrieval import Retrieval
from tour_pyserini.searchers.shared_labels import Labels, SharedLabels, lone_grant, remembering, share_labels
from tour_pyserini.support.costs import Costs

log = logging.getLogger(__name__)

Observer = Callable[[Round, Sequence[str]], None]
"""Called after each round of a batch with what happened and the query ids of the batch."""


class Batch(NamedTuple):
    """Queries that advance together.

    Attributes:
        queries: n texts or dicts, or vectors [n, d].
        q_ids: their ids.
        k: hits that are asked for.
        threads: threads of search.
    """

    queries: Any
    q_ids: list[str]
    k: int
    threads: int

    @property
    def has_texts(self) -> bool:
        """Whether there are texts to label; queries given as vectors are searched as they are."""
        return not isinstance(self.queries, np.ndarray)


@dataclass(frozen=True, kw_only=True)
class QueryOptimiser:
    """Optimises queries at test time.

    Attributes:
        config: the method and its settings.
        searcher: whose query encoder gives the first vector of a query.
        adapted: what gives it instead; None: that encoder, which may be replaced in the searcher at any time.
        retrieval: where candidates and their vectors come from.
        labels: where labels come from.
        scale: the calibrated factor of similarities; None: each query finds its own.
        purse: labels that queries share in the order in which they arrive.
        observe: called after each round of a batch.
        costs: where work and time are counted.
    """

    config: TourConfig
    searcher: Any
    adapted: AdaptedQueryEncoder | None
    retrieval: Retrieval
    labels: PassageLabels
    scale: float | None
    purse: Purse | None
    observe: Observer | None
    costs: Costs

    def optimise(self, batch: Batch, shared: SharedLabels | None = None) -> Outcome:
        """All rounds of a batch; where queries share labels, as `shared` says or among themselves."""
        grant: Grant | None = None
        if self.config.shares_labels and batch.has_texts:
            shared = shared or self.share_labels(batch, batch_size=len(batch.q_ids))
            grant = shared.ration(batch.q_ids)
        elif batch.has_texts:
            grant = self._from_purse(len(batch.q_ids))
        encoded, config, parts = self._prepared(batch, known=shared.labels if shared else None)
        observe = self.observe
        watch = (lambda round_: observe(round_, batch.q_ids)) if observe else None
        outcome = optimise(encoded, config, grant=grant, observe=watch, **parts)
        self._count(outcome)
        return outcome

    def rounds(self, batch: Batch, label: Label | None = None) -> Iterator[Progress]:
        """The rounds of one query, one after the other; labels come from `label` if it is given."""
        encoded, config, parts = self._prepared(batch, label=label)
        grant = lone_grant(config) if config.shares_labels else self._from_purse(1)
        for progress in rounds(encoded, config, grant=grant, **parts):
            yield progress
        self._count(progress.outcome)

    def share_labels(self, batch: Batch, *, batch_size: int) -> SharedLabels:
        """How the queries of a run share their labels; `batch_size` queries advance together."""

        def explore(some: list[Any], ids: list[str], grant: Grant, labels: Labels) -> None:
            part = batch._replace(queries=some, q_ids=ids)
            encoded, config, parts = self._prepared(part, known=labels)
            optimise(encoded, config, grant=grant, **parts)

        with self.costs.stage("update"):
            return share_labels(batch.queries, batch.q_ids, self.config, explore, batch_size=batch_size)

    def _from_purse(self, queries: int) -> Grant | None:
        """What grants labels to so many queries that arrive now; None where each has a budget of its own."""
        if self.purse is None:
            return None
        self.purse.arrive(queries)
        return self.purse.grant

    def _prepared(
        self, batch: Batch, *, label: Label | None = None, known: Labels | None = None
    ) -> tuple[Floats, TourConfig, dict[str, Any]]:
        """The encoded queries [n, d], the settings, and what the loop works with.

        Args:
            batch: the queries.
            label: where labels come from, instead of the re-ranker.
            known: labels that are known already; new ones are added.
        """
        queries, q_ids, k, threads = batch
        if batch.has_texts:
            config, texts = self.config, [text_of(query, q_id) for query, q_id in zip(queries, q_ids, strict=True)]
        else:
            log.info("queries given as vectors carry no text to label and are searched as they are")
            config, texts = TourConfig.preset("dense"), []
        with self.costs.stage("encode"):
            encoder = self.adapted or self.searcher.query_encoder
            encoded = encode_queries(encoder, queries, q_ids, self.searcher.dimension)
        retrieval, own = self.retrieval, self.retrieval.own_documents(q_ids)

        def bought(some: list[str], ids: Ids) -> Floats:
            return self.labels.buy(some, ids, label)

        score = bought if known is None else remembering(known, bought)
        signals = retrieval.found_by_signals(texts, own) if texts else []
        return encoded, config, {
            "search": lambda rows, vectors: retrieval.search(
                _finite(vectors, [q_ids[row] for row in rows]), max(k, retrieval.least_hits), own[rows], threads
            ),
            "signals": signals,
            "vectors": retrieval.vectors,
            "score": lambda rows, ids: score([texts[row] for row in rows], ids),
            # A calibrated scale is that of inner products alone.
            "scale": None if signals else self.scale,
        }  # fmt: skip

    def _count(self, outcome: Outcome) -> None:
        ledger = outcome.ledger
        self.costs.add(
            queries=len(outcome.queries),
            updates=int(outcome.updates.sum()),
            pairs=ledger.bought,
            reused=ledger.requested - ledger.bought,
        )


def _finite(vectors: Floats, q_ids: list[str]) -> Floats:
    """The vectors [n, d], checked for NaN and infinity."""
    diverged = ~np.isfinite(vectors).all(axis=1)
    if diverged.any():
        raise RequestError(
            f"the vector of query {q_ids[int(diverged.argmax())]!r} diverged; lower learning_rate or momentum."
        )
    return vectors
