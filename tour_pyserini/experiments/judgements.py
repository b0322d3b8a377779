"""The judgements of an experiment's collections: files, a part of them, or judgements by answers."""

from collections.abc import Sequence
from pathlib import Path

from tour_pyserini.answers import JudgeRequest, judge
from tour_pyserini.data.qrels import read_qrels, write_qrels
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Experiment, conditions_of, setups
from tour_pyserini.experiments.locations import Locations


def searched_qrels(experiment: Experiment, name: str, locations: Locations, *, write: bool = True) -> Path | None:
    """The judgements whose topics are searched; None if all topics are searched.

    If the collection has a limit, a new file has the judgements of that many topics, evenly spaced in their order.

    Args:
        experiment: the experiment.
        name: the collection.
        locations: where the new file goes.
        write: whether the new file is written.
    """
    collection = experiment.collections[name]
    given = Path(locations.expanded(collection.qrels)) if collection.qrels else None
    if collection.limit is None:
        return given
    if not write:
        return locations.qrels(name)
    qrels = read_qrels(given or _judge(experiment, name, locations))
    topics = list(dict.fromkeys(qrel.query_id for qrel in qrels))
    count = min(collection.limit, len(topics))
    chosen = {topics[number * len(topics) // count] for number in range(count)}
    write_qrels([qrel for qrel in qrels if qrel.query_id in chosen], locations.qrels(name))
    return locations.qrels(name)


def measured_qrels(experiment: Experiment, name: str, locations: Locations) -> Path | None:
    """The judgements that runs are measured with; None if they are not on this machine.

    A collection without judgements is judged by answers: the whole corpus if it is a file, otherwise the passages that
    the runs of the collection retrieved.
    """
    collection = experiment.collections[name]
    if collection.qrels is None and collection.limit is None:
        return _by_answers(experiment, name, locations)
    if not locations.is_file(collection.qrels or collection.corpus):
        return None
    return searched_qrels(experiment, name, locations)


def _by_answers(experiment: Experiment, name: str, locations: Locations) -> Path | None:
    if locations.is_file(experiment.collections[name].corpus):
        return _judge(experiment, name, locations)
    existing: list[Path] = []
    for setup in setups(experiment, {"collections": [name]}):
        runs = [locations.run(setup, condition) for condition in conditions_of(experiment, setup)]
        files = [run for run in runs if run.is_file()]
        archive = locations.archive(setup)
        if archive.is_file() and len(files) < len(runs):
            raise TourError(f"the runs in {archive} can only be judged as files; use --unpack first.")
        existing += files
    return _judge(experiment, name, locations, existing) if existing else None


def _judge(experiment: Experiment, name: str, locations: Locations, runs: Sequence[Path] = ()) -> Path:
    collection, output = experiment.collections[name], locations.qrels(name)
    topics, corpus = locations.expanded(collection.topics), locations.expanded(collection.corpus)
    judge(JudgeRequest(topics=topics, corpus=corpus, output=str(output), runs=runs), progress=True)
    return output
