"""The judgements of an experiment's collections."""

from collections.abc import Sequence
from pathlib import Path

from tour_pyserini.data.qrels_file import read_qrels, write_qrels
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Experiment, cells, conditions_of, expanded
from tour_pyserini.experiments.locations import Places
from tour_pyserini.pipeline.judging import JudgeRequest, judge


def searched_qrels(experiment: Experiment, name: str, places: Places, *, write: bool = True) -> Path | None:
    """The judgements whose topics are searched; None where all topics are.

    With a limit, that is a file of so many judged topics, evenly spaced in the order of the judgements.
    """
    collection = experiment.collections[name]
    given = Path(expanded(collection.qrels, places.variables)) if collection.qrels else None
    if collection.limit is None:
        return given
    if not write:
        return places.qrels(name)
    qrels = read_qrels(given or _judge(experiment, name, places))
    topics = list(dict.fromkeys(qrel.query_id for qrel in qrels))
    count = min(collection.limit, len(topics))
    chosen = {topics[at * len(topics) // count] for at in range(count)}
    write_qrels([qrel for qrel in qrels if qrel.query_id in chosen], places.qrels(name))
    return places.qrels(name)


def measured_qrels(experiment: Experiment, name: str, places: Places) -> Path | None:
    """The judgements that runs are measured with; None where they are not on this machine.

    Passages are judged by their answers where there are no judgements: all of a corpus that is a file, else what the
    runs of the collection found.
    """
    collection = experiment.collections[name]
    if collection.qrels is None and collection.limit is None:
        return _by_answers(experiment, name, places)
    if not is_file(collection.qrels or collection.corpus, places):
        return None
    return searched_qrels(experiment, name, places)


def is_file(text: str, places: Places) -> bool:
    """Whether a path of the experiment's file, ${VARIABLES} replaced, is a file on this machine."""
    try:
        return Path(expanded(text, places.variables)).is_file()
    except TourError:
        return False


def _by_answers(experiment: Experiment, name: str, places: Places) -> Path | None:
    if is_file(experiment.collections[name].corpus, places):
        return _judge(experiment, name, places)
    own = list(cells(experiment, {"collections": [name]}))
    runs = {cell: [places.run(cell, condition) for condition in conditions_of(experiment, cell)] for cell in own}
    found = [run for cell in own for run in runs[cell] if run.is_file()]
    for cell in own:
        if places.archive(cell).is_file() and not all(run.is_file() for run in runs[cell]):
            raise TourError(f"{places.archive(cell)} has runs that can only be judged as files; use --unpack first.")
    return _judge(experiment, name, places, found) if found else None


def _judge(experiment: Experiment, name: str, places: Places, runs: Sequence[Path] = ()) -> Path:
    collection, output = experiment.collections[name], places.qrels(name)
    topics, corpus = (expanded(text, places.variables) for text in (collection.topics, collection.corpus))
    judge(JudgeRequest(topics=topics, corpus=corpus, output=str(output), runs=runs), progress=True)
    return output
