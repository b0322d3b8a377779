# PYTHON_ARGCOMPLETE_OK
"""Show, verify, prune, export or merge kept scores."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tour_pyserini.command import CommandParser, run
from tour_pyserini.encoders.query_cache import APPLICATION_ID as VECTORS_ID
from tour_pyserini.encoders.query_cache import VECTORS
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.rerankers import score_upkeep
from tour_pyserini.rerankers.postgres_connection import is_server, without_password
from tour_pyserini.rerankers.postgres_upkeep import PostgresUpkeep
from tour_pyserini.rerankers.score_upkeep import SCORES
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.kept_file import application_id
from tour_pyserini.support.kept_upkeep import UNKNOWN, FileUpkeep, ModelUse, is_named

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache export --output scores.jsonl
  python -m tour_pyserini.cache merge machine-1.sqlite machine-2.sqlite --cache postgresql://db/scores"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    _ACTIONS[args.action](args)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("cache", description=__doc__, epilog=EXAMPLES)
    actions = parser.add_subparsers(dest="action", required=True, parser_class=argparse.ArgumentParser)
    commands = {
        name: actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        for name, text in (
            ("stats", "show how much is kept, the size of the files, and what belongs to each model"),
            ("verify", "check the files and everything in them; the exit code is 2 if one is damaged"),
            ("prune", "remove what belongs to some models, and make the files smaller"),
            ("export", "write every score as a JSON line"),
            ("merge", "add the scores of other caches; again, and nothing changes; different scores are refused"),
        )
    }
    for command in commands.values():
        command.add_argument(
            "--cache",
            metavar="FILE",
            help="one file, or postgresql://HOST/DATABASE (default: the files in the cache folder, scores.sqlite and "
            "queries.sqlite; export and merge: the first)",
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
    commands["export"].add_argument("--output", required=True, metavar="FILE", help="the file of JSON lines to write")
    commands["merge"].add_argument(
        "sources", nargs="+", metavar="CACHE", help="score caches whose scores are added: files, or postgresql://..."
    )
    return parser


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def _stats(args: argparse.Namespace) -> None:
    for kept in _kept(args):
        models = kept.models()
        size = kept.size() / 2**20
        _print(f"{kept.name}: {sum(use.rows for use in models):,} {kept.rows}, {size:.1f} MiB", kept, models)


def _verify(args: argparse.Namespace) -> None:
    for kept in _kept(args):
        _print(f"{kept.name}: {kept.verify():,} {kept.rows}, all of them valid", kept)


def _prune(args: argparse.Namespace) -> None:
    all_kept = _kept(args)
    models = {kept.name: kept.models() for kept in all_kept}
    for kept in all_kept:
        # With several files, a name need not occur in each of them.
        elsewhere = [use for other, uses in models.items() if other != kept.name for use in uses]
        own = [
            name
            for name in args.model
            if any(is_named(use, name) for use in models[kept.name])
            or not any(is_named(use, name) for use in elsewhere)
        ]
        if args.model and not own:
            continue
        removed = kept.prune(models=own, unused_for=args.unused_for, dry_run=args.dry_run)
        verb = "would be removed" if args.dry_run else "removed"
        _print(f"{kept.name}: {sum(use.rows for use in removed):,} {kept.rows} {verb}", kept, removed)


def _export(args: argparse.Namespace) -> None:
    sys.stdout.write(f"{args.output}: {score_upkeep.export(_scores(args), args.output):,} scores\n")


def _merge(args: argparse.Namespace) -> None:
    target = _scores(args)
    merged = score_upkeep.merge([_only_scores(source) for source in args.sources], target)
    rounding = f" (they differ by {merged.difference:.2g} at most)" if merged.difference else ""
    added = f"{merged.added:,} scores added, {merged.present:,} were there{rounding}"
    sys.stdout.write(f"{without_password(str(target))}: {added}\n")


def _scores(args: argparse.Namespace) -> str:
    """The score cache that is meant."""
    return _only_scores(args.cache) if args.cache else str(score_cache())


def _only_scores(location: str) -> str:
    if not is_server(location) and application_id(Path(location)) == VECTORS_ID:
        raise TourError(f"{location} holds query vectors, not scores; give a score cache.")
    return location


def _kept(args: argparse.Namespace) -> list[FileUpkeep | PostgresUpkeep]:
    """What is meant: the given cache, or the files that exist in the cache folder."""
    if args.cache and is_server(args.cache):
        return [PostgresUpkeep(args.cache)]
    if args.cache:
        path = Path(args.cache)
        return [FileUpkeep(VECTORS if application_id(path) == VECTORS_ID else SCORES, path)]
    scores, vectors = FileUpkeep(SCORES, score_cache()), FileUpkeep(VECTORS, query_cache())
    return [kept for kept in (scores, vectors) if kept.path.exists()] or [scores]


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "stats": _stats,
    "verify": _verify,
    "prune": _prune,
    "export": _export,
    "merge": _merge,
}


def _print(headline: str, kept: FileUpkeep | PostgresUpkeep, models: Sequence[ModelUse] = ()) -> None:
    sys.stdout.write(headline + "\n")
    if models:
        columns = ["model", "fingerprint", kept.rows, "first used", "last used"]
        sys.stdout.write(FORMATS["text"](Table([columns, *map(_row, models)], words=2)) + "\n")


def _row(use: ModelUse) -> list[str]:
    dates = (datetime.fromtimestamp(when).strftime("%Y-%m-%d") for when in (use.first_used, use.last_used))
    return [use.name or UNKNOWN, use.fingerprint[:24] or "-", f"{use.rows:,}", *dates]


if __name__ == "__main__":
    run(main)
