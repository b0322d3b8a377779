"""Measure what labelling and searching cost here; print tables, fill them into a document and draw them."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import about, bound, document, engine, growth, overhead, overlap, picture, quantised, tour, warm
from benchmarks.report import Report
from benchmarks.setting import Setting
from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import Help, positive
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.support.files import cache_home, check_writable

MEASUREMENTS: Mapping[str, Callable[[Setting], Report]] = {
    "a": engine.measure,
    "b": tour.measure,
    "c": overhead.measure,
    "d": bound.measure,
    "e": growth.measure,
    "f": warm.measure,
    "int8": quantised.measure,
    "overlap": overlap.measure,
}
COLLECTIONS = "TOUR_PYSERINI_COLLECTIONS"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "collections"
MODEL = "ms-marco-MiniLM-L-12-v2"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    setting = _setting(args)
    names = args.only or list(MEASUREMENTS)
    if args.output:
        document.check(args.output, names)
        check_writable(args.output.with_suffix(".png"))
    told = about.here()
    reports = []
    for name in names:
        reports.append(MEASUREMENTS[name](setting))
        sys.stdout.write(f"\n({name}) {reports[-1].title}\n\n{FORMATS['text'](reports[-1].table)}\n\n")
        sys.stdout.write(f"{reports[-1].note}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\n{told}\n")
    if args.output:
        document.fill(args.output, reports, about=told)
        picture.draw(reports, args.output.with_suffix(".png"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=Help)
    add = parser.add_argument
    add("--only", nargs="+", choices=list(MEASUREMENTS), metavar="NAME", help=f"some of: {', '.join(MEASUREMENTS)}")
    add("--quick", action="store_true", help="tiny sizes that show that everything works; the figures mean nothing")
    add("--collections", type=Path, metavar="DIR", help=f"folder of BEIR collections (default: ${COLLECTIONS})")
    add("--model", type=Path, metavar="DIR", help=f"fp32 cross-encoder (default: models/{MODEL} beside them)")
    add("--encoder", default="default", metavar="NAME", help="query encoder")
    add("--questions", type=positive, default=100, metavar="N", help="questions of searches")
    add("--pairs", type=positive, default=256, metavar="N", help="pairs that are only scored")
    add("--rounds", type=positive, default=3, metavar="N", help="turns of each contender")
    add("--work", type=Path, metavar="DIR", help="where indexes and runs are made (default: in the cache folder)")
    add("--output", type=Path, metavar="FILE.md", help="fill the tables into this document and draw FILE.png beside it")
    return parser


def _setting(args: argparse.Namespace) -> Setting:
    given = args.collections or os.environ.get(COLLECTIONS)
    collections = Path(given) if given else BESIDE
    if not collections.is_dir():
        raise TourError(f"there is no folder of collections {collections}; name one with --collections.")
    model = args.model or collections.parent / "models" / MODEL
    if not (model / "config.json").is_file():
        raise TourError(f"{model} holds no cross-encoder; name the folder of one in fp32 with --model.")
    return Setting(
        collections=collections,
        model=model,
        work=args.work or cache_home() / "benchmarks",
        encoder=args.encoder,
        questions=4 if args.quick else args.questions,
        pairs=8 if args.quick else args.pairs,
        rounds=1 if args.quick else args.rounds,
        quick=args.quick,
    )


if __name__ == "__main__":
    run(main)
