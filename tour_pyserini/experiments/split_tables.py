"""Measures on the splits of a collection's topics, such as those of train-test overlap."""

from collections.abc import Iterator

from tour_pyserini.evaluation.by_split import by_split
from tour_pyserini.evaluation.splits import read_splits
from tour_pyserini.evaluation.table import Table, split_table
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.flags import expanded
from tour_pyserini.experiments.judgements import is_file
from tour_pyserini.experiments.measuring import Measures, Rows
from tour_pyserini.experiments.places import Places
from tour_pyserini.experiments.table_lines import title_of
from tour_pyserini.topics import read_topics


def split_tables(experiment: Experiment, rows: Rows, places: Places, how: Measures) -> Iterator[Table]:
    """One table for each cell whose collection has splits on this machine: every condition on every split."""
    for cell, measured in rows.items():
        collection, own = experiment.collections[cell.collection], how[cell.collection]
        if own is None or collection.splits is None or not is_file(collection.splits, places):
            continue
        order = [str(qid) for qid in read_topics(expanded(collection.topics, places.variables)).topics]
        path = expanded(collection.splits, places.variables)
        scorer = own.with_answers or own.scorer
        splits = read_splits(path, judged=scorer.queries, topics=order)
        named = [row._replace(name=experiment.conditions[name].title) for name, row in measured.items()]
        table = split_table(by_split(scorer, named, splits))
        yield table._replace(title=f"{table.title}: {title_of(experiment, cell)}")
