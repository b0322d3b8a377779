"""Making the runs of an experiment that do not exist yet."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.evaluation.answer_measures import answers_needed
from tour_pyserini.experiments.archive import is_current, pack, read_record, read_records
from tour_pyserini.experiments.definition import Experiment, Setup, conditions_of
from tour_pyserini.experiments.indexes import make_index
from tour_pyserini.experiments.judgements import searched_qrels
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.experiments.planning import PlannedIndex, PlannedSearch, plan_index, plan_search
from tour_pyserini.opening import Opener
from tour_pyserini.search import search


class Step(NamedTuple):
    """One run to make; the search writes a run that is then compressed into `output`."""

    setup: Setup
    condition: str
    search: PlannedSearch
    output: Path


def steps(
    experiment: Experiment,
    chosen: Sequence[Setup],
    locations: Locations,
    conditions: Sequence[str] = (),
    *,
    write: bool = True,
) -> Iterator[Step]:
    """The runs of setups, whether they exist or not.

    Args:
        experiment: the experiment.
        chosen: the setups.
        locations: where everything is.
        conditions: names of conditions; all conditions if there are none.
        write: whether files of judgements are written for collections with a limit.
    """
    names = dict.fromkeys(setup.collection for setup in chosen)
    qrels = {name: searched_qrels(experiment, name, locations, write=write) for name in names}
    for setup in chosen:
        for name, condition in conditions_of(experiment, setup, conditions).items():
            output = locations.run(setup, name)
            planned = plan_search(
                *(experiment, setup, condition, locations),
                output=output.with_suffix(""),
                qrels=qrels[setup.collection],
            )
            yield Step(setup, name, planned, output)


def commands(experiment: Experiment, planned: Sequence[Step], locations: Locations) -> Iterator[str]:
    """The equivalent command lines, indexes first."""
    for index in _indexes(experiment, planned, locations):
        yield index.command()
    for step in planned:
        yield step.search.command()


def make_runs(
    experiment: Experiment,
    planned: Sequence[Step],
    locations: Locations,
    *,
    report: Callable[[str], object] = lambda line: None,
) -> int:
    """Make the runs that do not exist with these settings and inputs, and the indexes that they need.

    Args:
        experiment: the experiment.
        planned: `steps` of the experiment.
        locations: where everything is.
        report: called with one line before and after each search.

    Returns:
        How many runs were made.
    """
    answers = answers_needed(experiment.measures)
    # All requests are made before the first search, so that a mistake in the last condition is reported at once.
    requests = [step.search.request(step.condition) for step in planned]
    missing = [
        (step, request)
        for step, request in zip(planned, requests, strict=True)
        if not run_exists(step, request.config, locations, answers=answers)
    ]
    indexes = [index.request() for index in _indexes(experiment, [step for step, _ in missing], locations)]
    for index in indexes:
        make_index(index)
    opener, before = Opener(keep_query_vectors=True), None
    for number, (step, request) in enumerate(missing, start=1):
        if before is not None and before[:2] != step.setup[:2]:
            opener = Opener(keep_query_vectors=True)  # another collection or encoder shares nothing with the last one
        before = step.setup
        report(f"[{number}/{len(missing)}] {step.output.name}")
        summary = search(request, opener=opener, progress=True)
        report(f"{summary.output}: {summary.costs}")
        pack(
            *(summary.output, step.output),
            settings=step.search.settings,
            inputs=step.search.inputs,
            command=step.search.portable_command(),
            answers=answers,
        )
    return len(missing)


def run_exists(step: Step, config: TourConfig, locations: Locations, *, answers: int = 0) -> bool:
    """Whether the run exists, as a file or in the setup's archive, and was made with these settings and inputs."""
    record = read_record(step.output)
    if not step.output.exists():
        record = read_records(locations.archive(step.setup)).get(step.condition)
    return is_current(record, settings=step.search.settings, config=config, inputs=step.search.inputs, answers=answers)


def _indexes(experiment: Experiment, planned: Sequence[Step], locations: Locations) -> Iterator[PlannedIndex]:
    """Each index that the runs need, once; an index that gives vectors to another one comes first."""
    seen: set[Path] = set()
    for step in planned:
        for kind in (experiment.indexes[step.setup.index_kind].vectors, step.setup.index_kind):
            if kind is None or (index := plan_index(experiment, step.setup, locations, kind)) is None:
                continue
            if index.folder not in seen:
                seen.add(index.folder)
                yield index
