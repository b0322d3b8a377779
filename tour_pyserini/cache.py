# PYTHON_ARGCOMPLETE_OK
"""Show, verify, prune or export the score cache."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.rerankers import score_upkeep
from tour_pyserini.rerankers.score_file import size_on_disk
from tour_pyserini.rerankers.score_upkeep import ModelUse
from tour_pyserini.support.files import score_cache

EXAMPLES = """examples:
  python -m tour_pyserini.cache stats
  python -m tour_pyserini.cache prune --unused-for 90 --dry-run
  python -m tour_pyserini.cache export --output scores.jsonl"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    args.cache = Path(args.cache) if args.cache else score_cache()
    _ACTIONS[args.action](args)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("cache", description=__doc__, epilog=EXAMPLES)
    actions = parser.add_subparsers(dest="action", required=True, parser_class=argparse.ArgumentParser)
    commands = {
        name: actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        for name, text in (
            ("stats", "show the number of scores, the size of the file, and the scores of each model"),
            ("verify", "check the file and every score in it; the exit code is 2 if it is damaged"),
            ("prune", "remove the scores of some models, and make the file smaller"),
            ("export", "write every score as a JSON line"),
        )
    }
    for command in commands.values():
        command.add_argument(
            "--cache", metavar="FILE", help="the score cache (default: scores.sqlite in the cache folder)"
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
    models = score_upkeep.scores_by_model(args.cache)
    size = size_on_disk(args.cache)
    _print(f"{args.cache}: {sum(use.scores for use in models):,} scores, {size / 2**20:.1f} MiB", models)


def _verify(args: argparse.Namespace) -> None:
    _print(f"{args.cache}: {score_upkeep.verify(args.cache):,} scores, all of them valid")


def _prune(args: argparse.Namespace) -> None:
    models = score_upkeep.prune(args.cache, models=args.model, unused_for=args.unused_for, dry_run=args.dry_run)
    verb = "would be removed" if args.dry_run else "removed"
    _print(f"{args.cache}: {sum(use.scores for use in models):,} scores {verb}", models)


def _export(args: argparse.Namespace) -> None:
    _print(f"{args.output}: {score_upkeep.export(args.cache, args.output):,} scores")


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "stats": _stats,
    "verify": _verify,
    "prune": _prune,
    "export": _export,
}


def _print(headline: str, models: Sequence[ModelUse] = ()) -> None:
    sys.stdout.write(headline + "\n")
    if models:
        columns = ["model", "fingerprint", "scores", "first used", "last used"]
        sys.stdout.write(FORMATS["text"](Table([columns, *map(_row, models)], words=2)) + "\n")


def _row(use: ModelUse) -> list[str]:
    dates = (datetime.fromtimestamp(when).strftime("%Y-%m-%d") for when in (use.first_used, use.last_used))
    return [use.name or score_upkeep.UNKNOWN, use.fingerprint[:24] or "-", f"{use.scores:,}", *dates]


if __name__ == "__main__":
    run(main)
