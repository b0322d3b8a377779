"""Measure the time of labelling and searching on this machine; print tables, and put them into a document."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.benchmark_report import Report, check_document, fill_document
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.cluster import measure_cluster
from benchmarks.deadlines import measure_deadlines
from benchmarks.large import measure_large
from benchmarks.lucene import measure_lucene
from benchmarks.model_speed import measure_encoding, measure_labelling
from benchmarks.overload import measure_half_open, measure_overload
from benchmarks.quality import measure_int8, measure_tour
from benchmarks.search_time import measure_bound, measure_overhead, measure_warm_cache
from benchmarks.service_load import measure_service
from benchmarks.store_speed import measure_stores
from benchmarks.timings import describe_machine
from tour_pyserini.command import FlagParser, run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.support.files import cache_home

MEASUREMENTS: Mapping[str, Callable[[BenchmarkSetup], Report]] = {
    "a": measure_labelling,
    "b": measure_tour,
    "c": measure_overhead,
    "d": measure_bound,
    "f": measure_warm_cache,
    "g": measure_encoding,
    "int8": measure_int8,
}
"""Measurements for docs/performance.md: those that run where none is named."""
SCALED: Mapping[str, Callable[[BenchmarkSetup], Report]] = {
    "stores": measure_stores,
    "lucene": measure_lucene,
    "cluster": measure_cluster,
    "large": measure_large,
}
"""Measurements for docs/scale.md."""
SERVED: Mapping[str, Callable[[BenchmarkSetup], Report]] = {
    "service": measure_service,
    "deadlines": measure_deadlines,
    "overload": measure_overload,
    "half-open": measure_half_open,
}
"""Measurements of a service, for docs/service.md."""
ALL = {**MEASUREMENTS, **SCALED, **SERVED}
DEFAULT_COLLECTIONS = Path(__file__).resolve().parents[2] / "shared" / "collections"
DEFAULT_MODEL = "ms-marco-MiniLM-L-12-v2"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    setup = _setup(args)
    names = args.only or list(MEASUREMENTS)
    if args.output:
        check_document(args.output, names)
    machine = describe_machine()
    reports = []
    for name in names:
        report = ALL[name](setup)
        reports.append(report)
        sys.stdout.write(f"\n({name}) {report.title}\n\n{FORMATS['text'](report.table)}\n\n{report.note}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\n{machine}\n")
    if args.output:
        fill_document(args.output, reports, machine=machine)


def _parser() -> argparse.ArgumentParser:
    parser = FlagParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=ALL, metavar="NAME", help=f"some of: {', '.join(ALL)}")
    add("--quick", action="store_true", help="tiny sizes, to test that everything works; the figures mean nothing")
    add("--collections", type=Path, metavar="DIR", help="folder of BEIR collections")
    fp32 = f"folder of an fp32 cross-encoder (default: models/{DEFAULT_MODEL} beside the collections)"
    add("--model", type=Path, metavar="DIR", help=fp32)
    add("--encoder", default="default", metavar="NAME", help="query encoder")
    add("--questions", type=int, default=100, metavar="N", help="questions that are searched")
    add("--pairs", type=int, default=256, metavar="N", help="pairs that are scored")
    add("--passages", type=int, default=3000, metavar="N", help="passages that are encoded")
    add("--passages-from", type=Path, metavar="FILE", help="their corpus, and that of --index (default: nq-wiki)")
    add("--index", type=Path, metavar="DIR", help="flat index for `stores`, asked by NQ (default: that of scifact)")
    add("--sizes", type=int, nargs="+", metavar="N", help="passages of (large) (default: 100000 1000000)")
    add("--rounds", type=int, default=3, metavar="N", help="how often each function is timed")
    add("--seconds", type=int, default=300, metavar="N", help="how long a service is overloaded")
    add("--work", type=Path, metavar="DIR", help="folder for indexes and runs (default: in the cache folder)")
    add("--output", type=Path, metavar="FILE.md", help="put the tables into this document")
    return parser


def _setup(args: argparse.Namespace) -> BenchmarkSetup:
    collections = args.collections or DEFAULT_COLLECTIONS
    if not collections.is_dir():
        raise TourError(f"the folder of collections {collections} does not exist; give another one with --collections.")
    model = args.model or collections.parent / "models" / DEFAULT_MODEL
    if not (model / "config.json").is_file():
        raise TourError(f"{model} has no cross-encoder; give the folder of an fp32 cross-encoder with --model.")
    return BenchmarkSetup(
        collections=collections,
        model=model,
        work=args.work or cache_home() / "benchmarks",
        encoder=args.encoder,
        questions=4 if args.quick else args.questions,
        pairs=8 if args.quick else args.pairs,
        rounds=1 if args.quick else args.rounds,
        passages=8 if args.quick else args.passages,
        passages_from=args.passages_from,
        searched=args.index,
        sizes=tuple(args.sizes or BenchmarkSetup.sizes),
        seconds=2 if args.quick else args.seconds,
        quick=args.quick,
    )


if __name__ == "__main__":
    run(main)
