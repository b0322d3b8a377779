# PYTHON_ARGCOMPLETE_OK
"""Run an experiment from a YAML file and report on it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tour_pyserini.cli.command import run
from tour_pyserini.cli.experiment_flags import experiment_parser
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.experiments.archive import pack_cells, unpack_cells
from tour_pyserini.experiments.definition import Cell, Experiment, cells, conditions_of
from tour_pyserini.experiments.expected import Verdict, verdicts, write_expected
from tour_pyserini.experiments.locations import Places, variables
from tour_pyserini.experiments.measuring import Measures, Rows, measure, measures_of
from tour_pyserini.experiments.reading import find_experiment, packaged, read_experiment
from tour_pyserini.experiments.report import tables_of, write_figures, write_tables
from tour_pyserini.experiments.running import commands, make_runs, steps

FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a score is not the expected one."""
    args = experiment_parser().parse_args(argv)
    if args.experiment is None:
        if not args.list:
            raise TourError(f"no experiment is given: name a YAML file, or one of {', '.join(packaged())}.")
        sys.stdout.write("".join(f"{name}\n" for name in packaged()))
        return 0
    path = find_experiment(args.experiment)
    experiment = read_experiment(path)
    if args.list:
        sys.stdout.write("".join(f"{line}\n" for line in _listed(experiment)))
        return 0
    chosen = list(cells(experiment, _chosen(args)))
    places = Places(Path(args.runs) / experiment.name, Path(args.indexes), args.cache, variables(args.data))
    return _done(args, path, experiment, chosen, places)


def _done(args: argparse.Namespace, path: Path, experiment: Experiment, chosen: list[Cell], places: Places) -> int:
    if args.time_labels:
        return _time_labels(experiment, chosen, places)
    if args.pack or args.unpack:
        written = (pack_cells if args.pack else unpack_cells)(experiment, chosen, places)
        sys.stderr.write("".join(f"{path}\n" for path in written))
        return 0
    if not (args.report or args.write_expected):
        planned = list(steps(experiment, chosen, places, args.condition, write=not args.dry_run))
        if args.dry_run:
            sys.stdout.write("".join(f"{command}\n" for command in commands(experiment, planned, places)))
            return 0
        made = make_runs(experiment, planned, places)
        sys.stderr.write(f"{made} runs made, {len(planned) - made} were there\n")
    how = measures_of(experiment, chosen, places)
    rows = measure(experiment, chosen, places, args.condition, how=how)
    if not rows:
        raise TourError(f"{places.runs} has no runs that could be measured; make some, or give --data DIR.")
    if args.write_expected:
        write_expected(path, rows, experiment.expected)
        return 0
    _report(args, experiment, rows, places, how)
    return _verdict(list(verdicts(rows, experiment.expected)))


def _chosen(args: argparse.Namespace) -> dict[str, list[str]]:
    return {
        "collections": args.collection,
        "encoders": args.encoder,
        "indexes": args.index,
        "rerankers": args.reranker,
    }


def _listed(experiment: Experiment) -> Iterator[str]:
    yield f"{experiment.name}: {experiment.title}"
    for part in ("collections", "encoders", "indexes", "rerankers"):
        yield f"{part}: {', '.join(getattr(experiment, part))}"
    count = sum(len(conditions_of(experiment, cell)) for cell in cells(experiment))
    yield f"conditions ({count} runs):"
    for name, condition in experiment.conditions.items():
        yield f"  {name}: {condition.title}"


def _time_labels(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> int:
    from tour_pyserini.experiments.latency import time_labels

    for cell in {(cell.collection, cell.reranker): cell for cell in reversed(chosen)}.values():
        label = time_labels(experiment, cell, places)
        sys.stderr.write(
            f"{cell.collection}, {cell.reranker}: {label.seconds / label.pairs:.4f} s per label ({label.pairs} pairs)\n"
        )
    return 0


def _report(args: argparse.Namespace, experiment: Experiment, rows: Rows, places: Places, how: Measures) -> None:
    tables = tables_of(experiment, rows, places, how)
    sys.stdout.write("\n\n".join(FORMATS["text"](table) for table in tables) + "\n")
    if args.report:
        folder = Path(args.output) if args.output else places.runs / "report"
        written = [*write_tables(tables, folder), *write_figures(experiment, rows, places, folder)]
        sys.stderr.write("".join(f"{path}\n" for path in written))


def _verdict(found: Sequence[Verdict]) -> int:
    """Say which scores are not as expected."""
    for one in found:
        if one.result in ("okish", "FAIL"):
            measured = f"{one.cell} {one.condition} {one.measure}: {one.score:.4f}"
            sys.stdout.write(f"{measured} [{one.result}] expected {one.expected:.4f}\n")
    counts = {result: sum(one.result == result for one in found) for result in ("ok", "okish", "FAIL", "new")}
    sys.stdout.write(f"\nscores as expected: {', '.join(f'{count} {result}' for result, count in counts.items())}\n")
    return FAILED if counts["FAIL"] else 0


if __name__ == "__main__":
    run(main)
