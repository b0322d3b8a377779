"""Where scores are kept between runs: a file of this machine, or a PostgreSQL server that machines share."""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

from tour_pyserini.rerankers.postgres_connection import is_server
from tour_pyserini.rerankers.postgres_store import PostgresStore
from tour_pyserini.rerankers.score_store import ScoreStore, StoreStats
from tour_pyserini.support.kept_file import Model


class KeptScores(Protocol):
    """Scores by key; several threads and processes may use them at the same time."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, float]:
        """The scores of those keys that are stored."""

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Store all of the scores or none; a key that is already stored keeps its score."""

    def claim(self, keys: Sequence[bytes]) -> Set[bytes]:
        """Those of the keys that the caller is to score now; the others are stored, or somebody else scores them."""

    def release(self, keys: Sequence[bytes]) -> None:
        """Give up keys that were claimed and will not be scored; `put` gives up those that it stores."""

    def stats(self) -> StoreStats:
        """Count the scores and their bytes."""

    def close(self) -> None:
        """Close the file or the connection."""


def open_scores(location: str | os.PathLike[str], model: Model | None = None) -> KeptScores:
    """Open the scores of one model: a file, or `postgresql://HOST/DATABASE`."""
    if is_server(location):
        return PostgresStore(os.fspath(location), model)
    return ScoreStore(location, model)
