"""Measuring the runs of an experiment, and comparing their scores with the expected ones."""

import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tour_pyserini.core.method import METHODS
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.run_records import read_record
from tour_pyserini.data.runs import read_run
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_are_patterns, answers_needed
from tour_pyserini.evaluation.measures import MeasuredRun, MethodVersion, Scorer, measure_run
from tour_pyserini.experiments.definition import Experiment, Setup
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.experiments.running import Archive, judge_answers, searched_qrels
from tour_pyserini.support.files import atomic_write

EXACT = 0.0001
"""Up to this difference from the expected score a score is "ok", and "okish" up to the tolerance of the experiment."""

Results = Mapping[Setup, Mapping[str, MeasuredRun]]
"""Measures and costs of the existing runs, by setup and condition."""

Scorers = Mapping[str, Scorer]
"""The scorer of each collection whose judgements are on this machine."""


def scorers_of(at: Workspace, chosen: Sequence[Setup]) -> Scorers:
    """The scorer of each collection of the setups."""
    scorers, measures = dict[str, Scorer](), at.experiment.measures
    for name in dict.fromkeys(setup.collection for setup in chosen):
        if qrels := _measured_qrels(at, name):
            topics = at.expanded(at.experiment.collections[name].topics)
            questions = read_questions(topics) if answers_needed(measures) else ()
            regex, source = answers_are_patterns(topics), f"the judgements of {name}"
            scorers[name] = Scorer(measures, read_qrels(qrels), questions, regex=regex, source=source)
    return scorers


def _measured_qrels(at: Workspace, name: str) -> Path | None:
    """The judgements that runs are measured with; None if they are not on this machine.

    A collection without judgements is judged by answers: the whole corpus if it is a file, otherwise the passages that
    the runs of the collection retrieved.
    """
    collection = at.experiment.collections[name]
    if collection.qrels is not None or collection.limit is not None:
        return searched_qrels(at, name) if at.is_file(collection.qrels or collection.corpus) else None
    if at.is_file(collection.corpus):
        return judge_answers(at, name)
    existing: list[Path] = []
    for setup in at.experiment.setups({"collections": [name]}):
        runs = [at.run(setup, condition) for condition in at.experiment.conditions_of(setup)]
        files, archive = [run for run in runs if run.is_file()], at.archive(setup)
        if len(files) < len(runs) and archive.is_file():
            raise TourError(f"the runs in {archive} cannot be judged by their answers; remove it and make them again.")
        existing += files
    return judge_answers(at, name, existing) if existing else None


def measure(at: Workspace, chosen: Sequence[Setup], scorers: Scorers, conditions: Sequence[str] = ()) -> Results:
    """Measure the runs that exist, as files or in archives.

    Args:
        at: the experiment, and where its runs are.
        chosen: the setups; those without a scorer are left out.
        scorers: `scorers_of` the same setups.
        conditions: names of conditions; all conditions if there are none.
    """
    results: dict[Setup, Mapping[str, MeasuredRun]] = {}
    for setup in chosen:
        names, scorer = at.experiment.conditions_of(setup, conditions), scorers.get(setup.collection)
        if scorer and (runs := dict(_measured_runs(at, scorer, setup, names))):
            results[setup] = runs
    return results


def _measured_runs(
    at: Workspace, scorer: Scorer, setup: Setup, names: Iterable[str]
) -> Iterator[tuple[str, MeasuredRun]]:
    """The measured run of each condition that has one: from its file, or else from the archive."""
    archive = Archive(at.archive(setup))
    for name in names:
        path = at.run(setup, name)
        record: Mapping[str, Any]
        if path.is_file():
            run, record = read_run(path), read_record(path) or {}
        elif name in archive.records:
            path, run, record = archive.path, archive.stored_run(name), archive.records[name]
        else:
            continue
        if answers_needed(scorer.measures) and "answers" not in record:
            raise TourError(f"{path} has no predicted answers in its record; make the run again.")
        yield name, measure_run(scorer, run, name=name, path=path, record=record, predicted=record.get("answers"))


class Verdict(NamedTuple):
    """A measured score and the expected one.

    Attributes:
        result: `ok`, `okish` or `FAIL`; `new` if none is expected; `stale` if the run or the expected score was made by
            another version of its method, by another method, or by one that no longer exists.
    """

    setup: str
    condition: str
    measure: str
    score: float
    expected: float | None
    result: str


def verdicts(experiment: Experiment, results: Results) -> Iterator[Verdict]:
    """Compare every measured score with the expected one."""
    for setup, measured in results.items():
        for condition, run in measured.items():
            expected = experiment.expected.get(setup.name, {}).get(condition, {})
            before = MethodVersion(expected["method"], expected.get("version", 1)) if "method" in expected else None
            stale = _is_stale(run.algorithm, before)
            for measure, score in run.means.items():
                wanted = expected.get(measure)
                result = "new" if wanted is None else "stale" if stale else _result(score, wanted, experiment.tolerance)
                yield Verdict(setup.name, condition, measure, score, wanted, result)


def _is_stale(made: MethodVersion | None, expected: MethodVersion | None) -> bool:
    """Whether a run, or its expected scores, were not made by the present version of one method."""
    known = {algorithm for algorithm in (made, expected) if algorithm is not None}
    return len(known) > 1 or any(
        method not in METHODS or METHODS[method].version != version for method, version in known
    )


def _result(score: float, expected: float, tolerance: float) -> str:
    # Both numbers have four digits; 1e-9 allows for the error of floating-point subtraction.
    difference = abs(round(score, 4) - expected) - 1e-9
    return "ok" if difference <= EXACT else "okish" if difference <= tolerance else "FAIL"


def write_expected(
    path: str | os.PathLike[str], results: Results, before: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> None:
    """Write measured scores as `expected`, the last section of the file, each with the method that gave it.

    Scores that were not measured stay.
    """
    merged = {setup: dict(conditions) for setup, conditions in before.items()}
    for setup, measured in results.items():
        for condition, run in measured.items():
            scores = {measure: round(mean, 4) for measure, mean in run.means.items()}
            made = run.algorithm._asdict() if run.algorithm else {}
            merged.setdefault(setup.name, {})[condition] = made | scores
    kept = Path(path).read_text(encoding="utf-8").split("\nexpected:")[0].rstrip("\n")
    written = yaml.safe_dump(merged, sort_keys=False, default_flow_style=None, allow_unicode=True, width=math.inf)
    with atomic_write(path) as file:
        file.write(f"{kept}\n\nexpected:  # written by --write-expected; nothing may follow\n")
        file.write(textwrap.indent(written, "  "))
