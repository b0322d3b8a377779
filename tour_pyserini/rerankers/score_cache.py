"""A re-ranker that wraps a re-ranker and never pays for a pair twice."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair, Reranker, checked, name_of
from tour_pyserini.rerankers.score_store import ScoreStore
from tour_pyserini.rerankers.score_upkeep import Model

CHUNK = 512
"""Pairs scored between two commits: what an interruption costs at most."""


class CacheStats(NamedTuple):
    """What a cache did since it was opened, and what its file holds."""

    hits: int
    misses: int
    scores: int
    size: int
    """Bytes on disk."""


class CachedReranker:
    """A re-ranker whose scores survive the process.

    A score is found again by the re-ranker's fingerprint and the two texts, so another model, another maximum
    length or an edited passage never gets a stale one. Stored are raw logits as float64.

    Attributes:
        hits: pairs that needed no scoring, repetitions within a call included.
        misses: pairs that were scored.

    Example:
        >>> reranker = CachedReranker(load_reranker("default"), "scores.sqlite")  # doctest: +SKIP
    """

    def __init__(self, reranker: Reranker, path: str | os.PathLike[str]) -> None:
        fingerprint = getattr(reranker, "fingerprint", None)
        if not isinstance(fingerprint, str) or not fingerprint:
            raise TourError(
                f"scores of the re-ranker {name_of(reranker)} cannot be cached, because it has no fingerprint to tell "
                "them from another model's; give it an attribute `fingerprint` (str) or turn the cache off."
            )
        self.reranker = reranker
        self.fingerprint = fingerprint
        self.name = name_of(reranker)
        self.hits = 0
        self.misses = 0
        self._store = ScoreStore(path, Model(fingerprint, self.name))
        self._on_progress: Callable[[int], None] | None = None

    @property
    def on_progress(self) -> Callable[[int], None] | None:
        """Called with the number of pairs just found or scored."""
        return self._on_progress

    @on_progress.setter
    def on_progress(self, report: Callable[[int], None] | None) -> None:
        self._on_progress = report
        if self._inner_reports:
            self.reranker.on_progress = report  # type: ignore[attr-defined]

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)], stored or scored; repeated pairs are scored once."""
        # A re-ranker that reads more than a passage's characters says what: its title apart, for one.
        reads = getattr(self.reranker, "reads", str)
        keys = [pair_key(self.fingerprint, query, reads(passage)) for query, passage in pairs]
        places: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            places.setdefault(key, place)
        scores = self._store.get(places)
        missing = [key for key in places if key not in scores]
        self.hits += len(keys) - len(missing)
        self._report(len(keys) - len(missing))
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            fresh = checked(self.reranker, [pairs[places[key]] for key in part])
            scores.update(zip(part, fresh.tolist(), strict=True))
            self._store.put({key: scores[key] for key in part})
            self.misses += len(part)
            if not self._inner_reports:
                self._report(len(part))
        return np.array([scores[key] for key in keys], dtype=np.float64)

    def stats(self) -> CacheStats:
        """Counters of this object and the size of its file."""
        stored = self._store.stats()
        return CacheStats(self.hits, self.misses, stored.scores, stored.size)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> "CachedReranker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _inner_reports(self) -> bool:
        return hasattr(self.reranker, "on_progress")

    def _report(self, count: int) -> None:
        if self._on_progress is not None and count:
            self._on_progress(count)


def pair_key(fingerprint: str, query: str, passage: str) -> bytes:
    """16 bytes that stand for a re-ranker and two texts; lengths are hashed too, so no two triples read alike."""
    digest = hashlib.blake2b(digest_size=16)
    for text in (fingerprint, query, passage):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()
