"""The runs of an experiment, measured."""

from collections.abc import Iterator, Mapping, Sequence

from tour_pyserini.costs import Costs
from tour_pyserini.evaluation.comparison import Row, measured, row_of
from tour_pyserini.evaluation.files import read_qrels
from tour_pyserini.evaluation.scores import Scorer
from tour_pyserini.experiments.archive import read_archive
from tour_pyserini.experiments.cells import Cell, conditions_of
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.judgements import measured_qrels
from tour_pyserini.experiments.places import Places

Rows = Mapping[Cell, Mapping[str, Row]]
"""By cell and condition, its run's measures and costs; only what is there."""


def measure(experiment: Experiment, chosen: Sequence[Cell], places: Places, conditions: Sequence[str] = ()) -> Rows:
    """Measure the runs that are there, as files or else in archives.

    Collections whose judgements are not on this machine are left out.
    """
    scorers = {name: _scorer(experiment, name, places) for name in dict.fromkeys(cell.collection for cell in chosen)}
    found: dict[Cell, Mapping[str, Row]] = {}
    for cell in chosen:
        scorer, wanted = scorers[cell.collection], conditions_of(experiment, cell, conditions)
        rows = dict(_rows(scorer, cell, places, list(wanted))) if scorer else {}
        if rows:
            found[cell] = {name: rows[name] for name in wanted if name in rows}
    return found


def _rows(scorer: Scorer, cell: Cell, places: Places, names: Sequence[str]) -> Iterator[tuple[str, Row]]:
    qrels = f"the judgements of {cell.collection}"
    runs = {name: places.run(cell, name) for name in names}
    runs = {name: run for name, run in runs.items() if run.is_file()}
    for name, row in zip(runs, measured(scorer, list(runs.values()), qrels=qrels), strict=True):
        yield name, row._replace(name=name)
    path, missing = places.archive(cell), [name for name in names if name not in runs]
    if not missing or not path.is_file():
        return
    archive = read_archive(path)
    for name in missing:
        if name in archive.records:
            costs = Costs(**archive.records[name]["costs"])
            yield name, row_of(scorer, archive.run(name), name=name, path=path, costs=costs, qrels=qrels)


def _scorer(experiment: Experiment, name: str, places: Places) -> Scorer | None:
    qrels = measured_qrels(experiment, name, places)
    return None if qrels is None else Scorer(experiment.measures, read_qrels(qrels))
