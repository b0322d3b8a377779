"""A re-ranker that wraps another re-ranker and keeps its scores in a file, so that no pair is scored twice."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.kept_scores import KeptScores, open_scores
from tour_pyserini.rerankers.reranker import Pair, Reranker, checked_parts, display_name
from tour_pyserini.rerankers.score_file import KEY_BYTES
from tour_pyserini.support.kept_file import Model

CHUNK = 512
"""Pairs given to the wrapped re-ranker at a time: it makes batches of similar lengths from them."""
UNWRITTEN_SECONDS = 1.0
"""Scores are written to the file at least this often: a process that is killed loses those of a second, and at most the
batch that was being scored."""

WAIT_SECONDS = 0.2
"""Time between two looks for scores that another process computes."""


class CacheStats(NamedTuple):
    """Hits and misses of a cache since it was opened, and the size of its file."""

    hits: int
    misses: int
    scores: int
    size: int
    """Bytes on disk."""


class CachedReranker:
    """A re-ranker whose scores are kept in a score file, or where other machines find them too.

    A score is stored as a raw logit (float64) under a key made of the re-ranker's fingerprint and the two texts.
    Another model, another maximum length or an edited passage has another key and is scored again.

    Attributes:
        hits: pairs that needed no scoring, including repetitions within a call.
        misses: pairs that were scored.

    Example:
        >>> reranker = CachedReranker(load_reranker("default"), "scores.sqlite")  # doctest: +SKIP
    """

    def __init__(self, reranker: Reranker, scores: str | os.PathLike[str] | KeptScores) -> None:
        """Wrap a re-ranker; `scores` is a file, `postgresql://...`, or an object that keeps scores."""
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
        self._lock = threading.Lock()
        model = Model(fingerprint, self.name)
        self._store = open_scores(scores, model) if isinstance(scores, str | os.PathLike) else scores
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
        return self.predict_counted(pairs)[0]

    def predict_counted(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, int]:
        """Return the same logits, and the number of pairs that were scored rather than read from the file."""
        keys = self._keys(pairs)
        first_index: dict[bytes, int] = {}
        for index, key in enumerate(keys):
            first_index.setdefault(key, index)
        scores = self._store.get(first_index)
        missing = [key for key in first_index if key not in scores]
        with self._lock:
            self.hits += len(keys) - len(missing)
        self._report(len(keys) - len(missing))
        bought = 0
        while missing:
            # What another process is scoring now is not scored here: its scores are waited for.
            claimed = self._store.claim(missing)
            scores |= self._score({key: pairs[first_index[key]] for key in missing if key in claimed})
            bought += len(claimed)
            missing = [key for key in missing if key not in claimed]
            if missing:
                time.sleep(WAIT_SECONDS)
                found = self._store.get(missing)
                scores |= found
                missing = [key for key in missing if key not in found]
                with self._lock:
                    self.hits += len(found)
                self._report(len(found))
        return np.array([scores[key] for key in keys], dtype=np.float64), bought

    def kept(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return kept logits, float64 [len(pairs)]; NaN for a pair that is not in the file. None is computed."""
        keys = self._keys(pairs)
        scores = self._store.get(set(keys))
        return np.array([scores.get(key, np.nan) for key in keys], dtype=np.float64)

    def _keys(self, pairs: Sequence[Pair]) -> list[bytes]:
        reads = getattr(self.reranker, "reads", str)
        return [pair_key(self.fingerprint, query, reads(passage)) for query, passage in pairs]

    def _score(self, pairs: Mapping[bytes, Pair]) -> dict[bytes, float]:
        """Score pairs by key, and write the scores to the file while the others are computed."""
        scores: dict[bytes, float] = {}
        unwritten: dict[bytes, float] = {}
        written = time.monotonic()
        try:
            for new in self._computed(pairs):
                unwritten |= new
                if time.monotonic() - written >= UNWRITTEN_SECONDS:
                    self._store.put(unwritten)
                    scores |= unwritten
                    unwritten = {}
                    written = time.monotonic()
        finally:  # also after an interruption
            if unwritten:
                self._store.put(unwritten)
            unscored = [key for key in pairs if key not in scores and key not in unwritten]
            if unscored:
                self._store.release(unscored)
        return scores | unwritten

    def _computed(self, pairs: Mapping[bytes, Pair]) -> Iterator[dict[bytes, float]]:
        keys = list(pairs)
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            with closing(checked_parts(self.reranker, [pairs[key] for key in chunk])) as parts:
                for positions, logits in parts:
                    with self._lock:
                        self.misses += len(positions)
                    if not self._wrapped_reports:
                        self._report(len(positions))
                    yield {chunk[position]: logit for position, logit in zip(positions, logits.tolist(), strict=True)}

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
