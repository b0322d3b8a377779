# PYTHON_ARGCOMPLETE_OK
"""Run an experiment from a YAML file and report its results."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tour_pyserini.cli.experiment_flags import experiment_parser
from tour_pyserini.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import FORMATS
from tour_pyserini.experiments.archive import pack_setups, unpack_setups
from tour_pyserini.experiments.definition import PARTS, Experiment, Setup, conditions_of, setups
from tour_pyserini.experiments.expected import Verdict, verdicts, write_expected
from tour_pyserini.experiments.locations import Locations, variables
from tour_pyserini.experiments.measuring import measure, scorers_of
from tour_pyserini.experiments.reading import find_experiment, packaged, read_experiment
from tour_pyserini.experiments.report import report_tables, write_figures, write_tables
from tour_pyserini.experiments.running import commands, make_runs, steps

FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 if a score differs from the expected one."""
    args = experiment_parser().parse_args(argv)
    if args.experiment is None:
        if not args.list:
            raise TourError(f"no experiment is given: name a YAML file, or one of {', '.join(packaged())}.")
        _print(packaged())
        return 0
    path = find_experiment(args.experiment)
    experiment = read_experiment(path)
    if args.list:
        _print(_listed(experiment))
        return 0
    names = {"collections": args.collection, "encoders": args.encoder}
    chosen = list(setups(experiment, {**names, "indexes": args.index, "rerankers": args.reranker}))
    locations = Locations(Path(args.runs) / experiment.name, Path(args.indexes), args.cache, variables(args.data))
    if args.dry_run:
        planned = list(steps(experiment, chosen, locations, args.condition, write=False))
        _print(commands(experiment, planned, locations))
    elif args.time_labels:
        _time_labels(experiment, chosen, locations)
    elif args.pack:
        _log(pack_setups(experiment, chosen, locations))
    elif args.unpack:
        _log(unpack_setups(experiment, chosen, locations))
    else:
        return _run_and_measure(args, path, experiment, chosen, locations)
    return 0


def _run_and_measure(
    args: argparse.Namespace, path: Path, experiment: Experiment, chosen: list[Setup], locations: Locations
) -> int:
    if not (args.report or args.write_expected):
        planned = list(steps(experiment, chosen, locations, args.condition))
        made = make_runs(experiment, planned, locations, report=lambda line: _log([line]))
        _log([f"{made} runs made, {len(planned) - made} existed"])
    scorers = scorers_of(experiment, chosen, locations)
    results = measure(experiment, chosen, locations, args.condition, scorers=scorers)
    if not results:
        raise TourError(f"{locations.runs} has no runs that can be measured; make some, or give --data DIR.")
    if args.write_expected:
        write_expected(path, results, experiment.expected)
        return 0
    tables = report_tables(experiment, results, locations, scorers)
    sys.stdout.write("\n\n".join(FORMATS["text"](table) for table in tables) + "\n")
    if args.report:
        folder = Path(args.output) if args.output else locations.runs / "report"
        _log(write_tables(tables, folder))
        _log(write_figures(experiment, results, locations, folder))
    return _compare_with_expected(list(verdicts(results, experiment.expected, tolerance=experiment.tolerance)))


def _listed(experiment: Experiment) -> Iterator[str]:
    yield f"{experiment.name}: {experiment.title}"
    for part in PARTS:
        yield f"{part}: {', '.join(getattr(experiment, part))}"
    count = sum(len(conditions_of(experiment, setup)) for setup in setups(experiment))
    yield f"conditions ({count} runs):"
    for name, condition in experiment.conditions.items():
        yield f"  {name}: {condition.title}"


def _time_labels(experiment: Experiment, chosen: Sequence[Setup], locations: Locations) -> None:
    from tour_pyserini.experiments.latency import time_labels

    for setup in {(setup.collection, setup.reranker): setup for setup in reversed(chosen)}.values():
        label = time_labels(experiment, setup, locations)
        seconds = f"{label.seconds / label.pairs:.4f} s per label ({label.pairs} pairs)"
        _log([f"{setup.collection}, {setup.reranker}: {seconds}"])


def _compare_with_expected(found: Sequence[Verdict]) -> int:
    """Print the scores that differ from the expected ones; return the exit code."""
    for verdict in found:
        if verdict.result in ("okish", "FAIL"):
            measured = f"{verdict.setup} {verdict.condition} {verdict.measure}: {verdict.score:.4f}"
            _print([f"{measured} [{verdict.result}] expected {verdict.expected:.4f}"])
    counts = {result: sum(verdict.result == result for verdict in found) for result in ("ok", "okish", "FAIL", "new")}
    _print(["", f"scores as expected: {', '.join(f'{count} {result}' for result, count in counts.items())}"])
    return FAILED if counts["FAIL"] else 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _log(lines: Iterable[str | Path]) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    run(main)
