"""The runs of an experiment, measured."""

from collections.abc import Mapping, Sequence

from tour_pyserini.evaluation.comparison import Row, measured
from tour_pyserini.evaluation.files import read_qrels
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.experiments.cells import Cell, conditions_of
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.judgements import measured_qrels
from tour_pyserini.experiments.places import Places

Rows = Mapping[Cell, Mapping[str, Row]]
"""By cell and condition, its run's measures and costs; only what is there."""


def measure(experiment: Experiment, chosen: Sequence[Cell], places: Places, conditions: Sequence[str] = ()) -> Rows:
    """Measure the runs that are there; collections whose judgements are not on this machine are left out."""
    scorers = {name: _scorer(experiment, name, places) for name in dict.fromkeys(cell.collection for cell in chosen)}
    found: dict[Cell, Mapping[str, Row]] = {}
    for cell in chosen:
        scorer = scorers[cell.collection]
        runs = {name: places.run(cell, name) for name in conditions_of(experiment, cell, conditions)}
        runs = {name: run for name, run in runs.items() if run.is_file()}
        if scorer is not None and runs:
            rows = measured(scorer, list(runs.values()), qrels=f"the judgements of {cell.collection}")
            found[cell] = {name: row._replace(name=name) for name, row in zip(runs, rows, strict=True)}
    return found


def _scorer(experiment: Experiment, name: str, places: Places) -> Scorer | None:
    qrels = measured_qrels(experiment, name, places)
    return None if qrels is None else Scorer(experiment.measures, read_qrels(qrels))
