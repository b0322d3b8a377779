# PYTHON_ARGCOMPLETE_OK
"""Run an experiment from a YAML file and report its results."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tour_pyserini.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import PARTS, Experiment, Setup, find_experiment, packaged, read_experiment
from tour_pyserini.experiments.measuring import Verdict, measure, scorers_of, verdicts, write_expected
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.experiments.report import Report
from tour_pyserini.experiments.running import Archive, commands, make_runs, steps
from tour_pyserini.flags import Request, flag_name, option, request_parser
from tour_pyserini.support.packages import load_plugins

FAILED = 1

DESCRIPTION = """\
Run an experiment: every condition on every collection, encoder, index and re-ranker of a YAML file. Runs that exist are
not made again. The exit code is 1 if a score differs from the expected one."""

EXAMPLES = """examples:
  python -m tour_pyserini.experiment demo
  python -m tour_pyserini.experiment results --data DIR --collection cacm
  python -m tour_pyserini.experiment results --data DIR --report"""

ACTIONS = ("list", "dry_run", "report", "write_expected", "pack")


def _action(help: str) -> Any:
    return option(False, help, group="action (default: make the missing runs, then measure all)")


def _only(what: str) -> Any:
    return option((), f"only these {what}", group="parts of the experiment (default: all)")


def _path(default: str | None, help: str) -> Any:
    return option(default, help, group="paths")


@dataclass(frozen=True, kw_only=True)
class _ExperimentRequest(Request):
    """What to do with an experiment; the fields are the flags of the command."""

    experiment: str | None = option(None, "a YAML file, or the name of one of ours", positional=True)
    list: bool = _action("list the parts of the file, or without one the experiments")
    dry_run: bool = _action("print the commands, and do nothing")
    report: bool = _action("write tables and figures of the runs that exist")
    write_expected: bool = _action("write scores of the runs that exist into the file")
    pack: bool = _action("write the runs of each setup into one small file")
    condition: tuple[str, ...] = _only("conditions, or sweeps")
    collection: tuple[str, ...] = _only("collections")
    encoder: tuple[str, ...] = _only("encoders")
    index: tuple[str, ...] = _only("kinds of index")
    reranker: tuple[str, ...] = _only("re-rankers")
    data: str | None = _path(None, "collections and models: ${DATA} in the file")
    runs: str = _path("runs", "runs are written to DIR/EXPERIMENT")
    indexes: str = _path("indexes", "indexes; missing ones are built")
    cache: str | None = _path(None, "the score cache (default: the user's)")
    output: str | None = _path(None, "tables and figures (default: RUNS/EXPERIMENT/report)")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [flag_name(name) for name in ACTIONS if getattr(self, name)]
        if len(given) > 1:
            raise TourError(f"{given[0]} and {given[1]} cannot be given together; choose one action.")
        if self.experiment is None and not self.list:
            raise TourError(f"no experiment is given: name a YAML file, or one of {', '.join(packaged())}.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 if a score differs from the expected one."""
    parser = request_parser("experiment", _ExperimentRequest, description=DESCRIPTION, epilog=EXAMPLES)
    return _run_experiment(_ExperimentRequest.from_flags(vars(parser.parse_args(argv))))


def _run_experiment(request: _ExperimentRequest) -> int:
    """Do what is asked for with an experiment; returns the exit code."""
    if request.experiment is None:
        _print(packaged())
        return 0
    path = find_experiment(request.experiment)
    experiment = read_experiment(path)
    if request.list:
        _print(_parts(experiment))
        return 0
    for plugin in experiment.plugins:
        load_plugins([str(path.parent / plugin if (path.parent / plugin).exists() else plugin)])
    names = {"collections": request.collection, "encoders": request.encoder}
    chosen = experiment.setups({**names, "indexes": request.index, "rerankers": request.reranker})
    runs, indexes = Path(request.runs) / experiment.name, Path(request.indexes)
    at = Workspace(experiment, runs, indexes, request.cache, request.data)
    if request.dry_run:
        _print(commands(at, steps(at, chosen, request.condition, write=False)))
        return 0
    if request.pack:
        _log(_pack(at, chosen))
        return 0
    if not (request.report or request.write_expected):
        planned = steps(at, chosen, request.condition)
        made = make_runs(at, planned, report=lambda line: _log([line]))
        _log([f"{made} runs made, {len(planned) - made} existed"])
    scorers = scorers_of(at, chosen)
    results = measure(at, chosen, scorers, request.condition)
    if not results:
        raise TourError(f"{runs} has no runs that can be measured; make some, or give --data DIR.")
    if request.write_expected:
        write_expected(path, results, experiment.expected)
        return 0
    report = Report(at, results, scorers)
    sys.stdout.write(str(report))
    folder = Path(request.output) if request.output else runs / "report"
    _log(report.write_tables(folder))
    if request.report:
        _log(report.write_figures(folder))
    return _compare_with_expected(list(verdicts(experiment, results)))


def _parts(experiment: Experiment) -> Iterator[str]:
    yield f"{experiment.name}: {experiment.title}"
    for part in PARTS:
        yield f"{part}: {', '.join(getattr(experiment, part))}"
    count = sum(len(experiment.conditions_of(setup)) for setup in experiment.setups())
    yield f"conditions ({count} runs):"
    for name, condition in experiment.conditions.items():
        yield f"  {name}: {condition.title}"


def _pack(at: Workspace, chosen: Sequence[Setup]) -> Iterator[Path]:
    """Write the existing runs of each setup into its archive; runs that only the archive has stay in it."""
    for setup in chosen:
        names = at.experiment.conditions_of(setup)
        if runs := {name: run for name in names if (run := at.run(setup, name)).is_file()}:
            Archive(at.archive(setup)).write(runs, keep=names)
            yield at.archive(setup)


def _compare_with_expected(found: Sequence[Verdict]) -> int:
    """Print the scores that differ from the expected ones; return the exit code."""
    for one in found:
        if one.result in ("okish", "FAIL"):
            measured = f"{one.setup} {one.condition} {one.measure}: {one.score:.4f}"
            _print([f"{measured} [{one.result}] expected {one.expected:.4f}"])
    counts = {result: sum(one.result == result for one in found) for result in ("ok", "okish", "FAIL", "new", "stale")}
    _print(["", f"scores as expected: {', '.join(f'{count} {result}' for result, count in counts.items())}"])
    if counts["stale"]:
        why = "the run, or what is expected, was made by another version of its method"
        _print([f"{counts['stale']} scores are stale: {why}; make the runs anew, then --write-expected"])
    return FAILED if counts["FAIL"] else 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _log(lines: Iterable[str | Path]) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    run(main)
