"""Making the runs of an experiment that are not there yet."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.evaluation.answer_measures import answers_needed
from tour_pyserini.experiments.archive import is_current, pack, read_record, read_records
from tour_pyserini.experiments.definition import Cell, Experiment, conditions_of
from tour_pyserini.experiments.indexes import make_index
from tour_pyserini.experiments.judgements import searched_qrels
from tour_pyserini.experiments.locations import Places
from tour_pyserini.experiments.planning import PlannedIndex, PlannedSearch, plan_index, plan_search
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.searching import search


class Step(NamedTuple):
    """One run to make: the search writes a plain run, which is packed into `output`."""

    cell: Cell
    condition: str
    search: PlannedSearch
    output: Path


def steps(
    experiment: Experiment,
    chosen: Sequence[Cell],
    places: Places,
    conditions: Sequence[str] = (),
    *,
    write: bool = True,
) -> Iterator[Step]:
    """The runs of the chosen cells, whether they are there or not; judgements of some topics are written if asked."""
    names = dict.fromkeys(cell.collection for cell in chosen)
    judged = {name: searched_qrels(experiment, name, places, write=write) for name in names}
    for cell in chosen:
        for name, condition in conditions_of(experiment, cell, conditions).items():
            output = places.run(cell, name)
            plain, qrels = output.with_suffix(""), judged[cell.collection]
            planned = plan_search(experiment, cell, condition, places, output=plain, qrels=qrels)
            yield Step(cell, name, planned, output)


def commands(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[str]:
    """The equivalent command lines, indexes first."""
    for index in _indexes(experiment, planned, places):
        yield index.command()
    for step in planned:
        yield step.search.command()


def make_runs(experiment: Experiment, planned: Sequence[Step], places: Places) -> int:
    """Make the runs that do not exist with these settings and inputs, and the indexes that they need.

    Returns:
        How many runs were made.
    """
    answers = answers_needed(experiment.measures)
    # All settings are read before the first search, so that a mistake in the last condition is reported at once.
    requests = [step.search.request(step.condition) for step in planned]
    missing = [
        (step, request)
        for step, request in zip(planned, requests, strict=True)
        if not _is_there(step, request.config, places, answers)
    ]
    for index in _indexes(experiment, [step for step, _ in missing], places):
        make_index(index.request())
    opener, cell = Opener(keep_query_vectors=True), None
    for done, (step, request) in enumerate(missing):
        if cell is not None and cell[:2] != step.cell[:2]:
            opener = Opener(keep_query_vectors=True)  # the next collection or encoder needs nothing of this one
        cell = step.cell
        sys.stderr.write(f"[{done + 1}/{len(missing)}] {step.output.name}\n")
        summary = search(request, opener=opener, progress=True)
        sys.stderr.write(f"{summary.output}: {summary.costs}\n")
        pack(summary.output, step.output, settings=step.search.settings, inputs=step.search.inputs, answers=answers)
    return len(missing)


def _is_there(step: Step, config: TourConfig, places: Places, answers: int) -> bool:
    """Whether the run is there, by itself or in the cell's archive."""
    record = read_record(step.output)
    if not step.output.exists():
        record = read_records(places.archive(step.cell)).get(step.condition)
    return is_current(record, settings=step.search.settings, config=config, inputs=step.search.inputs, answers=answers)


def _indexes(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[PlannedIndex]:
    """Each index that the runs need, once."""
    seen: set[Path] = set()
    for step in planned:
        for kind in (experiment.indexes[step.cell.kind].vectors, step.cell.kind):
            if kind is None or (index := plan_index(experiment, step.cell, places, kind)) is None:
                continue
            if index.folder not in seen:
                seen.add(index.folder)
                yield index
