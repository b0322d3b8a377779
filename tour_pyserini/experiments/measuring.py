"""Measuring the runs of an experiment, and comparing their scores with the expected ones."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.core.method import METHODS
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.records import read_record
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_are_patterns
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers, is_answer_measure
from tour_pyserini.evaluation.measures import Algorithm, MeasuredRun, Scorer, measure_run, measure_runs
from tour_pyserini.experiments.definition import Expected, Experiment, Setup
from tour_pyserini.experiments.planning import Locations
from tour_pyserini.experiments.running import judge_answers, searched_qrels
from tour_pyserini.experiments.stored_runs import Archive
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write

EXACT = 0.0001
"""Up to this difference from the expected score a score is "ok", and "okish" up to the tolerance of the experiment."""

NOTHING = Expected.model_validate({})

Results = Mapping[Setup, Mapping[str, MeasuredRun]]
"""Measures and costs of the existing runs, by setup and condition."""


class _CollectionScorer:
    """Measures the runs of one collection, and their predicted answers if a measure asks for them.

    Attributes:
        scorer: measures runs.
        with_answers: measures runs and answers; None if no measure is one of answers.
    """

    def __init__(self, measures: Sequence[str], qrels: Path, topics: str) -> None:
        of_runs = [name for name in measures if not is_answer_measure(name)]
        if not of_runs:
            raise TourError("the experiment has no measure of runs; add one of ir-measures, such as Success@1.")
        self.scorer = Scorer(of_runs, read_qrels(qrels))
        self.with_answers = None
        if len(of_runs) < len(measures):
            questions, regex = read_questions(topics), answers_are_patterns(topics)
            self.with_answers = ScorerWithAnswers(self.scorer, measures, questions, regex=regex)

    def complete(self, run: MeasuredRun, record: Mapping[str, Any]) -> MeasuredRun:
        """The measured run with what its record says: how it was made and, if they are measured, its answers."""
        method = re.match(r"method=(\S+)", str(record.get("config", "")))
        if method and "algorithm" in record:
            run = run._replace(algorithm=Algorithm(method[1], record["algorithm"]["method"]))
        if self.with_answers is None:
            return run
        answers = record.get("answers")
        if answers is None:
            raise TourError(f"{run.path} has no predicted answers in its record; make the run again.")
        return self.with_answers.add_answers(run, answers, source=run.path)


Scorers = Mapping[str, _CollectionScorer | None]
"""The scorer of each collection; None if its judgements are not on this machine."""


def scorers_of(experiment: Experiment, chosen: Sequence[Setup], locations: Locations) -> Scorers:
    """The scorer of each collection of the setups."""
    scorers: dict[str, _CollectionScorer | None] = {}
    for name in dict.fromkeys(setup.collection for setup in chosen):
        qrels = _measured_qrels(experiment, name, locations)
        topics = locations.expanded(experiment.collections[name].topics) if qrels else ""
        scorers[name] = _CollectionScorer(experiment.measures, qrels, topics) if qrels else None
    return scorers


def _measured_qrels(experiment: Experiment, name: str, locations: Locations) -> Path | None:
    """The judgements that runs are measured with; None if they are not on this machine.

    A collection without judgements is judged by answers: the whole corpus if it is a file, otherwise the passages that
    the runs of the collection retrieved.
    """
    collection = experiment.collections[name]
    if collection.qrels is not None or collection.limit is not None:
        if not locations.is_file(collection.qrels or collection.corpus):
            return None
        return searched_qrels(experiment, name, locations)
    if locations.is_file(collection.corpus):
        return judge_answers(experiment, name, locations)
    existing: list[Path] = []
    for setup in experiment.setups({"collections": [name]}):
        runs = [locations.run(setup, condition) for condition in experiment.conditions_of(setup)]
        files, archive = [run for run in runs if run.is_file()], locations.archive(setup)
        if len(files) < len(runs) and archive.is_file():
            raise TourError(f"the runs in {archive} cannot be judged by their answers; remove it and make them again.")
        existing += files
    return judge_answers(experiment, name, locations, existing) if existing else None


def measure(
    experiment: Experiment,
    chosen: Sequence[Setup],
    locations: Locations,
    conditions: Sequence[str] = (),
    *,
    scorers: Scorers | None = None,
) -> Results:
    """Measure the runs that exist, as files or in archives.

    Collections whose judgements are not on this machine are left out.

    Args:
        experiment: the experiment.
        chosen: the setups.
        locations: where runs and judgements are.
        conditions: names of conditions; all conditions if there are none.
        scorers: `scorers_of` the same setups, if the caller has them.
    """
    scorers = scorers or scorers_of(experiment, chosen, locations)
    results: dict[Setup, Mapping[str, MeasuredRun]] = {}
    for setup in chosen:
        names, own = experiment.conditions_of(setup, conditions), scorers[setup.collection]
        runs = dict(_measured_runs(own, setup, locations, list(names))) if own else {}
        if runs:
            results[setup] = {name: runs[name] for name in names if name in runs}
    return results


def _measured_runs(
    own: _CollectionScorer, setup: Setup, locations: Locations, names: Sequence[str]
) -> Iterator[tuple[str, MeasuredRun]]:
    """The measured run of each condition that has one: from its file, or else from the archive."""
    qrels = f"the judgements of {setup.collection}"
    files = {name: file for name in names if (file := locations.run(setup, name)).is_file()}
    for name, run in zip(files, measure_runs(own.scorer, list(files.values()), qrels=qrels), strict=True):
        yield name, own.complete(run._replace(name=name), read_record(run.path) or {})
    archive = Archive(locations.archive(setup))
    for name in names:
        if name not in files and (record := archive.records.get(name)):
            costs = Costs.from_record(record.get("costs"))
            run = measure_run(own.scorer, archive.run(name), name=name, path=archive.path, costs=costs, qrels=qrels)
            yield name, own.complete(run, record)


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
            expected = experiment.expected.get(setup.name, {}).get(condition, NOTHING)
            stale = _is_stale(run.algorithm, expected.algorithm)
            for measure, score in run.means.items():
                wanted = expected.scores.get(measure)
                result = "new" if wanted is None else "stale" if stale else _result(score, wanted, experiment.tolerance)
                yield Verdict(setup.name, condition, measure, score, wanted, result)


def _is_stale(made: Algorithm | None, expected: Algorithm | None) -> bool:
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
    path: str | os.PathLike[str], results: Results, before: Mapping[str, Mapping[str, Expected]]
) -> None:
    """Write measured scores as `expected`, the last section of the file, each with the method that gave it.

    Scores that were not measured stay.
    """
    merged = {setup: dict(conditions) for setup, conditions in before.items()}
    for setup, measured in results.items():
        for condition, run in measured.items():
            made = run.algorithm._asdict() if run.algorithm else {}
            merged.setdefault(setup.name, {})[condition] = Expected.model_validate({**made, **run.means})
    kept = Path(path).read_text(encoding="utf-8").split("\nexpected:")[0].rstrip("\n")
    with atomic_write(path) as file:
        file.write(f"{kept}\n\nexpected:  # written by --write-expected; nothing may follow\n")
        for name, conditions in merged.items():
            file.write(f"  {name}:\n")
            for condition, expected in conditions.items():
                made_by = [f"method: {expected.method}, version: {expected.version}"] if expected.method else []
                scores = [f"{json.dumps(measure)}: {score:.4f}" for measure, score in expected.scores.items()]
                file.write(f"    {condition}: {{{', '.join([*made_by, *scores])}}}\n")
