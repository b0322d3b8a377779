# PYTHON_ARGCOMPLETE_OK
"""Show, verify, prune or export kept scores and query vectors."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.encoders.vector_file import APPLICATION_ID as VECTORS_ID
from tour_pyserini.encoders.vector_file import VECTORS
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.rerankers import score_upkeep
from tour_pyserini.rerankers.score_upkeep import SCORES
from tour_pyserini.support import kept_upkeep
from tour_pyserini.support.files import query_cache, score_cache
from tour_pyserini.support.kept_file import application_id, size_on_disk
from tour_pyserini.support.kept_upkeep import UNKNOWN, KeptRows, ModelUse, is_named

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache export --output scores.jsonl"""


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
        )
    }
    for command in commands.values():
        command.add_argument(
            "--cache",
            metavar="FILE",
            help="one file (default: those in the cache folder, scores.sqlite and queries.sqlite; export: the first)",
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
    for kind, path in _files(args):
        models = kept_upkeep.rows_by_model(kind, path)
        size = size_on_disk(path) / 2**20
        _print(f"{path}: {sum(use.rows for use in models):,} {kind.table}, {size:.1f} MiB", kind, models)


def _verify(args: argparse.Namespace) -> None:
    for kind, path in _files(args):
        _print(f"{path}: {kept_upkeep.verify(kind, path):,} {kind.table}, all of them valid", kind)


def _prune(args: argparse.Namespace) -> None:
    files = _files(args)
    models = {path: kept_upkeep.rows_by_model(kind, path) for kind, path in files}
    for kind, path in files:
        # With several files, a name need not occur in each of them.
        elsewhere = [use for other, uses in models.items() if other != path for use in uses]
        own = [
            name
            for name in args.model
            if any(is_named(use, name) for use in models[path]) or not any(is_named(use, name) for use in elsewhere)
        ]
        if args.model and not own:
            continue
        removed = kept_upkeep.prune(kind, path, models=own, unused_for=args.unused_for, dry_run=args.dry_run)
        verb = "would be removed" if args.dry_run else "removed"
        _print(f"{path}: {sum(use.rows for use in removed):,} {kind.table} {verb}", kind, removed)


def _export(args: argparse.Namespace) -> None:
    kind, path = _files(args)[0]
    if kind is not SCORES:
        raise TourError(f"{path} holds query vectors, and only scores can be exported; give a score cache.")
    _print(f"{args.output}: {score_upkeep.export(path, args.output):,} scores", kind)


def _files(args: argparse.Namespace) -> list[tuple[KeptRows, Path]]:
    """The files that are meant: the given one, or those that exist in the cache folder."""
    if args.cache:
        path = Path(args.cache)
        return [(VECTORS if application_id(path) == VECTORS_ID else SCORES, path)]
    scores, vectors = (SCORES, score_cache()), (VECTORS, query_cache())
    if args.action == "export":
        return [scores]
    return [(kind, path) for kind, path in (scores, vectors) if path.exists()] or [scores]


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "stats": _stats,
    "verify": _verify,
    "prune": _prune,
    "export": _export,
}


def _print(headline: str, kind: KeptRows, models: Sequence[ModelUse] = ()) -> None:
    sys.stdout.write(headline + "\n")
    if models:
        columns = ["model", "fingerprint", kind.table, "first used", "last used"]
        sys.stdout.write(FORMATS["text"](Table([columns, *map(_row, models)], words=2)) + "\n")


def _row(use: ModelUse) -> list[str]:
    dates = (datetime.fromtimestamp(when).strftime("%Y-%m-%d") for when in (use.first_used, use.last_used))
    return [use.name or UNKNOWN, use.fingerprint[:24] or "-", f"{use.rows:,}", *dates]


if __name__ == "__main__":
    run(main)
