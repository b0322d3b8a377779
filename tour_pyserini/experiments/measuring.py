"""Measuring the runs of an experiment."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tour_pyserini.data.qrels import read_qrels
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_are_patterns
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers, is_answer_measure
from tour_pyserini.evaluation.comparison import measured, measured_run
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer
from tour_pyserini.experiments.archive import Record, read_archive, read_record
from tour_pyserini.experiments.definition import Experiment, Setup, conditions_of
from tour_pyserini.experiments.judgements import measured_qrels
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.support.costs import Costs

Results = Mapping[Setup, Mapping[str, MeasuredRun]]
"""Measures and costs of the existing runs, by setup and condition."""


class CollectionScorer:
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

    def add_answers(self, run: MeasuredRun, record: Record | None) -> MeasuredRun:
        """The measured run with measures of the answers in its record, if there are such measures."""
        if self.with_answers is None:
            return run
        answers = (record or {}).get("answers")
        if answers is None:
            raise TourError(f"{run.path} has no predicted answers in its record; make the run again.")
        return self.with_answers.add_answers(run, answers, source=run.path)


Scorers = Mapping[str, CollectionScorer | None]
"""The scorer of each collection; None if its judgements are not on this machine."""


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
        scorer, wanted = scorers[setup.collection], conditions_of(experiment, setup, conditions)
        runs = dict(_measured_runs(scorer, setup, locations, list(wanted))) if scorer else {}
        if runs:
            results[setup] = {name: runs[name] for name in wanted if name in runs}
    return results


def scorers_of(experiment: Experiment, chosen: Sequence[Setup], locations: Locations) -> Scorers:
    """The scorer of each collection of the setups."""
    names = dict.fromkeys(setup.collection for setup in chosen)
    return {name: _scorer_of(experiment, name, locations) for name in names}


def _scorer_of(experiment: Experiment, name: str, locations: Locations) -> CollectionScorer | None:
    qrels = measured_qrels(experiment, name, locations)
    if qrels is None:
        return None
    return CollectionScorer(experiment.measures, qrels, locations.expanded(experiment.collections[name].topics))


def _measured_runs(
    scorer: CollectionScorer, setup: Setup, locations: Locations, names: Sequence[str]
) -> Iterator[tuple[str, MeasuredRun]]:
    """The measured run of each condition that has one: from its file, or else from the archive."""
    qrels = f"the judgements of {setup.collection}"
    files = {name: locations.run(setup, name) for name in names}
    files = {name: file for name, file in files.items() if file.is_file()}
    for name, run in zip(files, measured(scorer.scorer, list(files.values()), qrels=qrels), strict=True):
        yield name, scorer.add_answers(run._replace(name=name), read_record(run.path))
    path, missing = locations.archive(setup), [name for name in names if name not in files]
    if not missing or not path.is_file():
        return
    archive = read_archive(path)
    for name in missing:
        if name in archive.records:
            costs = Costs.from_record(archive.records[name].get("costs", {}))
            run = measured_run(scorer.scorer, archive.run(name), name=name, path=path, costs=costs, qrels=qrels)
            yield name, scorer.add_answers(run, archive.records[name])
