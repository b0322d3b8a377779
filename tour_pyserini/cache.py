# PYTHON_ARGCOMPLETE_OK
"""Show, prune or merge cached scores."""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Sequence
from datetime import datetime

from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.encoders.query_vectors import SqliteVectors
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.rerankers.postgres_scores import PostgresScores, without_password
from tour_pyserini.rerankers.score_cache import open_scores
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.sqlite_cache import UNKNOWN, ModelUse, SqliteCache

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache merge machine-1.sqlite machine-2.sqlite --cache postgresql://db/scores"""

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
            ("merge", "add the scores of other caches; what is there stays"),
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
    found = {name: [one for one in caches if any(use.is_named(name) for use in one.models())] for name in args.model}
    for cache in caches:
        # With several files, a name need not occur in each of them; one that occurs in none is refused by the first.
        models = [name for name, having in found.items() if cache in having or not having]
        if args.model and not models:
            continue
        removed = cache.prune(models=models, unused_for=args.unused_for, dry_run=args.dry_run)
        verb = "would be removed" if args.dry_run else "removed"
        _print(f"{cache.name}: {sum(use.rows for use in removed):,} {cache.rows} {verb}", cache, removed)


def _merge(args: argparse.Namespace) -> None:
    """Add the scores of some caches to another one; what is there stays, so doing it again changes nothing."""
    target = args.cache or str(score_cache())
    read, present, before = 0, 0, _count(target)
    for source in args.sources:
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


if __name__ == "__main__":
    run(main)
