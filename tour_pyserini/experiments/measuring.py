"""The runs of an experiment, measured."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_are_patterns
from tour_pyserini.evaluation.answer_measures import ScorerWithAnswers, is_answer_measure
from tour_pyserini.evaluation.comparison import measured, measured_run
from tour_pyserini.evaluation.measures import MeasuredRun, Scorer
from tour_pyserini.experiments.archive import Record, read_archive, read_record
from tour_pyserini.experiments.definition import Cell, Experiment, conditions_of, expanded
from tour_pyserini.experiments.judgements import measured_qrels
from tour_pyserini.experiments.locations import Places
from tour_pyserini.support.costs import Costs

Rows = Mapping[Cell, Mapping[str, MeasuredRun]]
"""By cell and condition, its run's measures and costs; only what is there."""


class Measure:
    """Measures the runs of a collection, and the answers that came with them where a measure is one of answers."""

    def __init__(self, measures: Sequence[str], qrels: Path, topics: str) -> None:
        of_runs = [name for name in measures if not is_answer_measure(name)]
        if not of_runs:
            raise TourError("the measures name none of the runs; add one of ir-measures, such as Success@1.")
        self.scorer = Scorer(of_runs, read_qrels(qrels))
        self.with_answers = None
        if len(of_runs) < len(measures):
            questions, regex = read_questions(topics), answers_are_patterns(topics)
            self.with_answers = ScorerWithAnswers(self.scorer, measures, questions, regex=regex)

    def __call__(self, row: MeasuredRun, record: Record | None) -> MeasuredRun:
        """The row with the measures of the answers in the run's record."""
        if self.with_answers is None:
            return row
        answers = (record or {}).get("answers")
        if answers is None:
            raise TourError(f"{row.path} came without answers; make the run again.")
        return self.with_answers.add_answers(row, answers, source=row.path)


Measures = Mapping[str, Measure | None]
"""By collection, what measures its runs; None where its judgements are not on this machine."""


def measure(
    experiment: Experiment,
    chosen: Sequence[Cell],
    places: Places,
    conditions: Sequence[str] = (),
    *,
    how: Measures | None = None,
) -> Rows:
    """Measure the runs that are there, as files or else in archives.

    Collections whose judgements are not on this machine are left out.

    Args:
        experiment: the experiment.
        chosen: the cells.
        places: where things are.
        conditions: only these; none is all.
        how: `measures_of` the same cells, where the caller has it.
    """
    how = how or measures_of(experiment, chosen, places)
    found: dict[Cell, Mapping[str, MeasuredRun]] = {}
    for cell in chosen:
        own, wanted = how[cell.collection], conditions_of(experiment, cell, conditions)
        rows = dict(_rows(own, cell, places, list(wanted))) if own else {}
        if rows:
            found[cell] = {name: rows[name] for name in wanted if name in rows}
    return found


def measures_of(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> Measures:
    """What measures the runs of each collection of the cells."""
    names = dict.fromkeys(cell.collection for cell in chosen)
    return {name: _measure_of(experiment, name, places) for name in names}


def _measure_of(experiment: Experiment, name: str, places: Places) -> Measure | None:
    qrels = measured_qrels(experiment, name, places)
    if qrels is None:
        return None
    return Measure(experiment.measures, qrels, expanded(experiment.collections[name].topics, places.variables))


def _rows(own: Measure, cell: Cell, places: Places, names: Sequence[str]) -> Iterator[tuple[str, MeasuredRun]]:
    qrels = f"the judgements of {cell.collection}"
    runs = {name: places.run(cell, name) for name in names}
    runs = {name: run for name, run in runs.items() if run.is_file()}
    for name, row in zip(runs, measured(own.scorer, list(runs.values()), qrels=qrels), strict=True):
        yield name, own(row._replace(name=name), read_record(row.path))
    path, missing = places.archive(cell), [name for name in names if name not in runs]
    if not missing or not path.is_file():
        return
    archive = read_archive(path)
    for name in missing:
        if name in archive.records:
            costs = Costs(**archive.records[name]["costs"])
            row = measured_run(own.scorer, archive.run(name), name=name, path=path, costs=costs, qrels=qrels)
            yield name, own(row, archive.records[name])
