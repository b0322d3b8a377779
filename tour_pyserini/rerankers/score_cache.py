"""The score cache: a re-ranker that wraps another one and stores its scores, so that no pair is scored twice.

Scores lie in an SQLite file that processes may share, or in PostgreSQL (`postgres_scores`). The table `scores` holds a
raw logit, the number of a model and a checksum for each key of 16 bytes.
"""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.postgres_scores import PostgresScores, score_checksum, without_password
from tour_pyserini.rerankers.reranker import Pair, Reranker, display_name, score_parts
from tour_pyserini.support.sqlite_cache import Model, SqliteCache

UNWRITTEN_SECONDS = 1.0
"""Scores are written at least this often: a process that is killed loses those of a second, and at most the batch that
was being scored."""
WAIT_SECONDS = 0.2
"""Time between two looks for scores that another process computes."""


class SqliteScores(SqliteCache):
    """Raw logits by key in an SQLite file, safe to share between processes and threads.

    Args:
        path: the file; a missing one is created.
        model: whose scores are put.
        must_exist: refuse a missing or a damaged file instead of replacing it.

    Example:
        >>> with SqliteScores("scores.sqlite") as store:  # doctest: +SKIP
        ...     store.put({b"key": 1.5})
        ...     store.get([b"key", b"other"])
        {b'key': 1.5}
    """

    noun = "score cache"
    rows = "scores"
    columns = (
        "(key BLOB PRIMARY KEY, logit REAL NOT NULL, model INTEGER NOT NULL DEFAULT 0, "
        "checksum INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
    )
    owner = 0x546F7552  # "TouR"
    version = 3
    write_ahead = True

    @staticmethod
    def is_intact(key: Any, logit: Any, model: Any, checksum: Any) -> bool:
        """Whether a row is as it was written: a damaged file may hold anything."""
        typed = isinstance(key, bytes) and isinstance(logit, float) and isinstance(model, int)
        return typed and math.isfinite(logit) and checksum == score_checksum(key, logit, model)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """Read the scores of those keys that are stored; a damaged row is deleted and counts as not stored."""
        return {key: logit for key, logit, *_ in self.read_rows(keys)}

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score."""
        self.write_rows(lambda model: ((k, v, model, score_checksum(k, v, model)) for k, v in scores.items()))

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """Those of the keys that the caller is to score now: all, because processes that share a file do not wait."""
        return set(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: nothing was claimed."""

    def scores(self) -> Iterator[tuple[Model, bytes, float]]:
        """The model, the key and the logit of every score, sorted by key; a damaged one is an error."""
        return ((Model(*row[:2]), row[2], row[3]) for row in self.all_rows())


def open_scores(
    location: str | os.PathLike[str], model: Model | None = None, *, must_exist: bool = False
) -> SqliteScores | PostgresScores:
    """Open the scores of one model: a file, or `postgresql://HOST/DATABASE`."""
    if is_server(location):
        return PostgresScores(os.fspath(location), model)
    return SqliteScores(location, model, must_exist=must_exist)


def is_server(location: str | os.PathLike[str]) -> bool:
    """Whether a score cache is named by the address of a server.

    Raises:
        TourError: if it is an address of something else than PostgreSQL.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", str(location))
    if scheme and scheme[1] not in ("postgresql", "postgres"):
        shown = without_password(str(location))
        raise TourError(f"the score cache {shown} is of an unknown kind; give a file or postgresql://HOST/DATABASE.")
    return bool(scheme)


class CachedReranker:
    """A re-ranker whose scores are stored in a file, or in a database that several machines use.

    A score is stored as a raw logit (float64) under a key made of the re-ranker's fingerprint and the two texts.
    Another model, another maximum length or an edited passage has another key and is scored again.

    Attributes:
        on_progress: called with the number of pairs that were just looked up or scored.

    Example:
        >>> reranker = CachedReranker(load_reranker("default"), "scores.sqlite")  # doctest: +SKIP
    """

    def __init__(self, reranker: Reranker, scores: Any) -> None:
        """Wrap a re-ranker; `scores` is a file, `postgresql://...`, or an object with methods as `SqliteScores`."""
        fingerprint = getattr(reranker, "fingerprint", None)
        if not isinstance(fingerprint, str) or not fingerprint:
            raise TourError(
                f"scores of the re-ranker {display_name(reranker)} cannot be cached, because it has no fingerprint "
                "that identifies it; give it an attribute `fingerprint` (str) or turn the cache off."
            )
        self.reranker, self.fingerprint, self.name = reranker, fingerprint, display_name(reranker)
        self.on_progress: Callable[[int], None] | None = None
        model = Model(fingerprint, self.name)
        self._store = open_scores(scores, model) if isinstance(scores, str | os.PathLike) else scores

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return raw logits, float64 [len(pairs)], looked up or computed; repeated pairs are scored once."""
        return self.predict_counted(pairs)[0]

    def predict_counted(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, int]:
        """Return the same logits, and the number of pairs that were scored rather than looked up."""
        keys = self._keys(pairs)
        distinct = dict(zip(keys, pairs, strict=True))
        scores = self._store.get(distinct)
        missing = {key: pair for key, pair in distinct.items() if key not in scores}
        self._report(len(keys) - len(missing))
        computed = 0
        while missing:
            # What another process is scoring now is not scored here: its scores are waited for.
            claimed = self._store.claim(list(missing))
            scores |= self._score({key: pair for key, pair in missing.items() if key in claimed})
            computed += len(claimed)
            missing = {key: pair for key, pair in missing.items() if key not in claimed}
            if missing:
                time.sleep(WAIT_SECONDS)
                scores |= (found := self._store.get(missing))
                missing = {key: pair for key, pair in missing.items() if key not in found}
                self._report(len(found))
        return np.array([scores[key] for key in keys], dtype=np.float64), computed

    def lookup(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return stored logits, float64 [len(pairs)]; NaN for a pair that is not stored. None is computed."""
        keys = self._keys(pairs)
        scores = self._store.get(set(keys))
        return np.array([scores.get(key, np.nan) for key in keys], dtype=np.float64)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def __enter__(self) -> "CachedReranker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keys(self, pairs: Sequence[Pair]) -> list[bytes]:
        reads = getattr(self.reranker, "reads", str)
        return [pair_key(self.fingerprint, query, reads(passage)) for query, passage in pairs]

    def _score(self, pairs: Mapping[bytes, Pair]) -> dict[bytes, float]:
        """Score pairs by key, and store the scores while the others are computed."""
        keys = list(pairs)
        scores: dict[bytes, float] = {}
        unwritten: dict[bytes, float] = {}
        written = time.monotonic()
        try:
            with closing(score_parts(self.reranker, list(pairs.values()))) as parts:
                for positions, logits in parts:
                    unwritten.update(zip((keys[position] for position in positions), logits.tolist(), strict=True))
                    self._report(len(positions))
                    if time.monotonic() - written >= UNWRITTEN_SECONDS:
                        self._store.put(unwritten)
                        scores |= unwritten
                        unwritten = {}
                        written = time.monotonic()
        finally:  # also after an interruption
            if unwritten:
                self._store.put(unwritten)
            scores |= unwritten
            if unscored := [key for key in keys if key not in scores]:
                self._store.release(unscored)
        return scores

    def _report(self, count: int) -> None:
        if self.on_progress is not None and count:
            self.on_progress(count)


def pair_key(fingerprint: str, query: str, passage: str) -> bytes:
    """Hash a re-ranker's fingerprint and the two texts of a pair to 16 bytes.

    The length of each text is hashed too, so that ("ab", "c") and ("a", "bc") have different keys.
    """
    digest = hashlib.blake2b(digest_size=16)
    for text in (fingerprint, query, passage):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()
