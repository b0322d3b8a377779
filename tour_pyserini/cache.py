# PYTHON_ARGCOMPLETE_OK
"""Show, prune or merge cached scores."""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.encoders.query_vectors import SqliteVectors
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.rerankers.postgres_scores import PostgresScores, without_password
from tour_pyserini.rerankers.score_cache import is_server, open_scores
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.sqlite_cache import UNKNOWN, Model, ModelUse, SqliteCache, application_id

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache merge machine-1.sqlite machine-2.sqlite --cache postgresql://db/scores"""

_ROUNDING = 1e-3
"""The same model gives the same pair scores that differ by less, by rounding, on different machines."""
_ROWS = 10_000  # merged at a time


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    {"stats": _stats, "prune": _prune, "merge": _merge}[args.action](args)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("cache", description=__doc__, epilog=EXAMPLES)
    actions = parser.add_subparsers(dest="action", required=True, parser_class=FlagParser)
    commands = {
        name: actions.add_parser(name, help=text, description=text)
        for name, text in (
            ("stats", "show how much is stored, the size of the files, and what belongs to each model"),
            ("prune", "remove what belongs to some models, and make the files smaller"),
            ("merge", "add the scores of other caches; again, and nothing changes; different scores are refused"),
        )
    }
    for command in commands.values():
        command.add_argument(
            "--cache",
            metavar="FILE",
            help="one file, or postgresql://HOST/DATABASE (default: the files in the cache folder, scores.sqlite and "
            "queries.sqlite; merge: the first)",
        )
    prune = commands["prune"]
    prune.add_argument(
        "--model",
        action="append",
        default=[],
        help="only this model: a name, the beginning of a fingerprint, or `unknown`; may be given several times",
    )
    prune.add_argument(
        "--unused-for", type=_days, metavar="DAYS", help="only models that were not used for this many days"
    )
    prune.add_argument("--dry-run", action="store_true", help="show what would be removed, but remove nothing")
    commands["merge"].add_argument(
        "sources", nargs="+", metavar="CACHE", help="score caches whose scores are added: files, or postgresql://..."
    )
    return parser


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):  # fewer than none would choose, and remove, everything
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def _stats(args: argparse.Namespace) -> None:
    for cache in _caches(args.cache):
        models = cache.models()
        size = cache.size() / 2**20
        _print(f"{cache.name}: {sum(use.rows for use in models):,} {cache.rows}, {size:.1f} MiB", cache, models)


def _prune(args: argparse.Namespace) -> None:
    caches = _caches(args.cache)
    models = {cache.name: cache.models() for cache in caches}
    every = [use for uses in models.values() for use in uses]
    for cache in caches:
        # With several files, a name need not occur in each of them; one that occurs in none is refused by the first.
        unknown = [name for name in args.model if not any(use.is_named(name) for use in every)]
        own = unknown + [name for name in args.model if any(use.is_named(name) for use in models[cache.name])]
        if args.model and not own:
            continue
        removed = cache.prune(models=own, unused_for=args.unused_for, dry_run=args.dry_run)
        verb = "would be removed" if args.dry_run else "removed"
        _print(f"{cache.name}: {sum(use.rows for use in removed):,} {cache.rows} {verb}", cache, removed)


def _merge(args: argparse.Namespace) -> None:
    """Add the scores of some caches to another one, one cache after the other; doing it again changes nothing."""
    target = args.cache or str(score_cache())
    for location in (*args.sources, target):
        if _holds_vectors(location):
            raise TourError(f"{location} holds query vectors, not scores; give a score cache.")
    added, present, differences = zip(*(_merge_one(source, target) for source in args.sources), strict=True)
    rounding = f" (they differ by {max(differences):.2g} at most)" if any(differences) else ""
    said = f"{sum(added):,} scores added, {sum(present):,} were there{rounding}"
    sys.stdout.write(f"{without_password(target)}: {said}\n")


def _caches(location: str | None) -> list[SqliteCache | PostgresScores]:
    """What is meant: the given cache, or the files that exist in the cache folder."""
    if location:
        return [_open(location)]
    found = [path for path in (score_cache(), query_cache()) if path.exists()]
    return [_open(str(path)) for path in found or [score_cache()]]


def _open(location: str) -> SqliteCache | PostgresScores:
    if _holds_vectors(location):
        return SqliteVectors(location, must_exist=True)
    return open_scores(location, must_exist=True)


def _holds_vectors(location: str) -> bool:
    return not is_server(location) and application_id(Path(location)) == SqliteVectors.owner


def _print(headline: str, cache: SqliteCache | PostgresScores, models: Sequence[ModelUse]) -> None:
    sys.stdout.write(headline + "\n")
    if models:
        columns = ["model", "fingerprint", cache.rows, "first used", "last used"]
        sys.stdout.write(FORMATS["text"](Table([columns, *map(_row, models)], words=2)) + "\n")


def _row(use: ModelUse) -> list[str]:
    dates = (datetime.fromtimestamp(when).strftime("%Y-%m-%d") for when in (use.first_used, use.last_used))
    return [use.name or UNKNOWN, use.fingerprint[:24] or "-", f"{use.rows:,}", *dates]


class _Score(NamedTuple):
    """A score and what it is the score of; a model that was not recorded has an empty fingerprint and name."""

    model: Model
    key: bytes
    logit: float


def _merge_one(source: str, target: str) -> tuple[int, int, float]:
    """Add the scores of one cache: how many were added, how many were there, and the largest difference among those.

    They are compared with the target first. A score that is there already stays; one that differs by more than rounding
    means that two models have the same fingerprint, and nothing is merged then.
    """
    total, present, difference = 0, 0, 0.0
    with contextlib.closing(open_scores(target)) as store:
        before = store.count()
        for part in _parts(source):
            stored = store.get([score.key for score in part])
            total, present = total + len(part), present + len(stored)
            for score in part:
                apart = abs(stored.get(score.key, score.logit) - score.logit)
                difference = max(difference, apart)
                if apart > _ROUNDING:
                    raise TourError(
                        f"{without_password(source)} and {without_password(target)} have different scores of the model "
                        f"{score.model.name or UNKNOWN} for the pair {score.key.hex()} ({score.logit:.6g} and "
                        f"{stored[score.key]:.6g}), so one of them is wrong; nothing of the first was merged."
                    )
    for part in _parts(source):
        for model, scores in itertools.groupby(sorted(part), key=lambda score: score.model):
            with contextlib.closing(open_scores(target, model if model.fingerprint else None)) as store:
                store.put({score.key: score.logit for score in scores})
    with contextlib.closing(open_scores(target)) as store:
        added = store.count() - before
    if added + present < total:
        raise TourError(f"not all scores could be written to {without_password(target)}; see the warning.")
    return added, present, difference


def _parts(location: str) -> Iterator[list[_Score]]:
    """Every score of a cache, sorted by key, some at a time; a damaged one is an error."""
    with contextlib.closing(open_scores(location, must_exist=True)) as store:
        scores = itertools.starmap(_Score, store.scores())
        yield from iter(lambda: list(itertools.islice(scores, _ROWS)), [])


if __name__ == "__main__":
    run(main)
