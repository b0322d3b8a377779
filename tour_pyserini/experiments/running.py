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
from tour_pyserini.experiments.planning import Search, index_argv, plan_search, settings_of, shown
from tour_pyserini.experiments.session import EncodedOnce, Session


class Step(NamedTuple):
    """One run to make: the search writes a plain run, which is packed into `output`."""

    cell: Cell
    condition: str
    search: Search
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
            search = plan_search(experiment, cell, condition, places, output=plain, qrels=qrels)
            yield Step(cell, name, search, output)


def dry(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[str]:
    """The commands as they are typed, indexes first."""
    for _, argv in _indexes(experiment, planned, places):
        yield shown("index", argv)
    for step in planned:
        yield shown("search", step.search.argv)


def make_runs(experiment: Experiment, planned: Sequence[Step], places: Places) -> int:
    """Make the runs that are not there with these settings and inputs, and what indexes they need.

    Returns:
        How many runs were made.
    """
    from tour_pyserini import search

    answers = answers_needed(experiment.measures)
    # All settings are read before the first search: a mistake in the last condition should not show tomorrow.
    settings = [settings_of(step.search, step.condition) for step in planned]
    missing = [
        step for step, config in zip(planned, settings, strict=True) if not _is_there(step, config, places, answers)
    ]
    for folder, argv in _indexes(experiment, missing, places):
        make_index(folder, argv)
    session, cell = _session(), None
    for done, step in enumerate(missing):
        if cell is not None and cell[:2] != step.cell[:2]:
            session = _session()  # what another encoder or corpus needs no more
        cell = step.cell
        sys.stderr.write(f"[{done + 1}/{len(missing)}] {step.output.name}\n")
        plain = step.output.with_suffix("")
        search.main(step.search.argv, once=session.once)
        pack(plain, step.output, settings=step.search.settings, inputs=step.search.inputs, answers=answers)
    return len(missing)


def _session() -> Session:
    from tour_pyserini.encoders.encoder_loading import load_query_encoder
    from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder

    return Session({load_query_encoder: EncodedOnce, load_phrase_encoder: EncodedOnce})


def _is_there(step: Step, config: TourConfig, places: Places, answers: int) -> bool:
    """Whether the run is there, by itself or in the cell's archive."""
    record = read_record(step.output)
    if not step.output.exists():
        record = read_records(places.archive(step.cell)).get(step.condition)
    return is_current(record, settings=step.search.settings, config=config, inputs=step.search.inputs, answers=answers)


def _indexes(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[tuple[Path, list[str]]]:
    """The folder and the words of the index command, for each index that the runs need."""
    seen: set[Path] = set()
    for step in planned:
        for kind in (experiment.indexes[step.cell.kind].vectors, step.cell.kind):
            if kind is None or (argv := index_argv(experiment, step.cell, places, kind)) is None:
                continue
            folder = places.index_folder(experiment, step.cell, kind)
            if folder not in seen:
                seen.add(folder)
                yield folder, argv
