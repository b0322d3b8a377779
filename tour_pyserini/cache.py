# PYTHON_ARGCOMPLETE_OK
"""Show, prune or merge cached scores."""

import contextlib
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from datetime import datetime

from tour_pyserini.command import run
from tour_pyserini.encoders.query_vectors import SqliteVectors
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.flags import Kinds, Request, option, parse_kind
from tour_pyserini.rerankers.postgres_scores import PostgresScores, without_password
from tour_pyserini.rerankers.score_cache import open_scores
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.sqlite_cache import UNKNOWN, ModelUse, SqliteCache

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache merge machine-1.sqlite machine-2.sqlite --cache postgresql://db/scores"""

_ROWS = 10_000  # merged at a time


@dataclass(frozen=True, kw_only=True)
class _CacheRequest(Request):
    """Which cache is meant."""

    cache: str | None = option(
        None,
        "one file, or postgresql://HOST/DATABASE (default: the files in the cache folder, scores.sqlite and "
        "queries.sqlite; merge: the first)",
    )


@dataclass(frozen=True, kw_only=True)
class _PruneRequest(_CacheRequest):
    """What is removed."""

    model: Sequence[str] = option((), "only these models: names, beginnings of fingerprints, or `unknown`")
    unused_for: float | None = option(None, "only models that were not used for this many days")
    dry_run: bool = option(False, "show what would be removed, but remove nothing")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unused_for is not None and not 0 <= self.unused_for < math.inf:  # nan would choose everything
            raise TourError(f"--unused-for is a number of days, not {self.unused_for}.")


@dataclass(frozen=True, kw_only=True)
class _MergeRequest(_CacheRequest):
    """What is added."""

    sources: Sequence[str] = option(MISSING, "score caches to add: files, or postgresql://...", positional=True)


def _stats(request: _CacheRequest) -> None:
    """Show how much is stored, the size of the files, and what belongs to each model."""
    for cache in _caches(request.cache):
        models = cache.models()
        size = cache.size() / 2**20
        _print(f"{cache.name}: {sum(use.rows for use in models):,} {cache.rows}, {size:.1f} MiB", cache, models)


def _prune(request: _PruneRequest) -> None:
    """Remove what belongs to some models, and make the files smaller."""
    caches = _caches(request.cache)
    found = {name: [one for one in caches if any(use.is_named(name) for use in one.models())] for name in request.model}
    for cache in caches:
        # With several files, a name need not occur in each of them; one that occurs in none is refused by the first.
        models = [name for name, having in found.items() if cache in having or not having]
        if request.model and not models:
            continue
        removed = cache.prune(models=models, unused_for=request.unused_for, dry_run=request.dry_run)
        verb = "would be removed" if request.dry_run else "removed"
        _print(f"{cache.name}: {sum(use.rows for use in removed):,} {cache.rows} {verb}", cache, removed)


def _merge(request: _MergeRequest) -> None:
    """Add the scores of other caches; what is there stays, so doing it again changes nothing."""
    target = request.cache or str(score_cache())
    read, present, before = 0, 0, _count(target)
    for source in request.sources:
        with contextlib.closing(open_scores(source, must_exist=True)) as cache:
            scores = cache.scores()
            while part := sorted(itertools.islice(scores, _ROWS)):  # by model
                read += len(part)
                for model, group in itertools.groupby(part, key=lambda row: row[0]):
                    rows = {key: logit for _, key, logit in group}
                    with contextlib.closing(open_scores(target, model if model.fingerprint else None)) as store:
                        present += len(store.get(rows))
                        store.put(rows)
    if (added := _count(target) - before) + present < read:
        raise TourError(f"not all scores could be written to {without_password(target)}; see the warning.")
    sys.stdout.write(f"{without_password(target)}: {added:,} scores added, {present:,} were there\n")


def _count(location: str) -> int:
    with contextlib.closing(open_scores(location)) as store:
        return store.count()


def _caches(location: str | None) -> list[SqliteCache | PostgresScores]:
    """What is meant: the given cache, or the files that exist in the cache folder."""
    vectors: list[SqliteCache | PostgresScores] = []
    if location is None and query_cache().exists():
        vectors.append(SqliteVectors(query_cache()))
        if not score_cache().exists():
            return vectors
    return [open_scores(location or score_cache(), must_exist=True), *vectors]


def _print(headline: str, cache: SqliteCache | PostgresScores, models: Sequence[ModelUse]) -> None:
    sys.stdout.write(headline + "\n")
    if models:
        columns = ["model", "fingerprint", cache.rows, "first used", "last used"]
        sys.stdout.write(FORMATS["text"](Table([columns, *map(_row, models)], words=2)) + "\n")


def _row(use: ModelUse) -> list[str]:
    dates = (datetime.fromtimestamp(when).strftime("%Y-%m-%d") for when in (use.first_used, use.last_used))
    return [use.name or UNKNOWN, use.fingerprint[:24] or "-", f"{use.rows:,}", *dates]


_ACTIONS: Kinds = {"stats": (_CacheRequest, _stats), "prune": (_PruneRequest, _prune), "merge": (_MergeRequest, _merge)}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request, function = parse_kind("cache", _ACTIONS, argv, description=__doc__, epilog=EXAMPLES)
    function(request)


if __name__ == "__main__":
    run(main)
