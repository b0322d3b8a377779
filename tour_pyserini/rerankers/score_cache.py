"""A re-ranker that wraps another re-ranker and keeps its scores in a file, so that no pair is scored twice."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair, Reranker, checked_scores, display_name
from tour_pyserini.rerankers.score_file import KEY_BYTES
from tour_pyserini.rerankers.score_store import Model, ScoreStore

CHUNK = 512
"""Pairs scored between two writes to the file: an interruption loses the scores of one chunk at most."""


class CacheStats(NamedTuple):
    """Hits and misses of a cache since it was opened, and the size of its file."""

    hits: int
    misses: int
    scores: int
    size: int
    """Bytes on disk."""


class CachedReranker:
    """A re-ranker whose scores are kept in a score file.

    A score is stored as a raw logit (float64) under a key made of the re-ranker's fingerprint and the two texts.
    Another model, another maximum length or an edited passage has another key and is scored again.

    Attributes:
        hits: pairs that needed no scoring, including repetitions within a call.
        misses: pairs that were scored.

    Example:
        >>> reranker = CachedReranker(load_reranker("default"), "scores.sqlite")  # doctest: +SKIP
    """

    def __init__(self, reranker: Reranker, path: str | os.PathLike[str]) -> None:
        fingerprint = getattr(reranker, "fingerprint", None)
        if not isinstance(fingerprint, str) or not fingerprint:
            raise TourError(
                f"scores of the re-ranker {display_name(reranker)} cannot be cached, because it has no fingerprint "
                "that identifies it; give it an attribute `fingerprint` (str) or turn the cache off."
            )
        self.reranker = reranker
        self.fingerprint = fingerprint
        self.name = display_name(reranker)
        self.hits = 0
        self.misses = 0
        self._store = ScoreStore(path, Model(fingerprint, self.name))
        self._on_progress: Callable[[int], None] | None = None

    @property
    def on_progress(self) -> Callable[[int], None] | None:
        """Called with the number of pairs just read from the file or scored."""
        return self._on_progress

    @on_progress.setter
    def on_progress(self, report: Callable[[int], None] | None) -> None:
        self._on_progress = report
        if self._wrapped_reports:
            self.reranker.on_progress = report  # type: ignore[attr-defined]

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return raw logits, float64 [len(pairs)], read from the file or computed; repeated pairs are scored once."""
        reads = getattr(self.reranker, "reads", str)
        keys = [pair_key(self.fingerprint, query, reads(passage)) for query, passage in pairs]
        first_index: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            first_index.setdefault(key, index)
        scores = self._store.get(first_index)
        missing = [key for key in first_index if key not in scores]
        self.hits += len(keys) - len(missing)
        self._report(len(keys) - len(missing))
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            logits = checked_scores(self.reranker, [pairs[first_index[key]] for key in chunk])
            new_scores = dict(zip(chunk, logits.tolist(), strict=True))
            self._store.put(new_scores)
            scores.update(new_scores)
            self.misses += len(chunk)
            if not self._wrapped_reports:
                self._report(len(chunk))
        return np.array([scores[key] for key in keys], dtype=np.float64)

    def stats(self) -> CacheStats:
        """Return the counters of this object and the size of its file."""
        stored = self._store.stats()
        return CacheStats(self.hits, self.misses, stored.scores, stored.size)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def __enter__(self) -> "CachedReranker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _wrapped_reports(self) -> bool:
        """Whether the wrapped re-ranker reports its progress itself."""
        return hasattr(self.reranker, "on_progress")

    def _report(self, count: int) -> None:
        if self._on_progress is not None and count:
            self._on_progress(count)


def pair_key(fingerprint: str, query: str, passage: str) -> bytes:
    """Hash a re-ranker's fingerprint and the two texts of a pair to 16 bytes.

    The length of each text is hashed too, so that ("ab", "c") and ("a", "bc") have different keys.
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for text in (fingerprint, query, passage):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()
