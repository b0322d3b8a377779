"""An index and a re-ranker in memory, and what was asked of them."""

import numpy as np

from tour_pyserini.core.arrays import Hits
from tour_pyserini.core.fusion import Fusion, SignalHits
from tour_pyserini.core.method import Query
from tour_pyserini.core.scheduler import Scheduler, Task


def found(scores, count):
    """The `count` best documents of a signal with scores [n, m] for all documents."""
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return SignalHits(ids, np.take_along_axis(scores, ids, axis=1))


def world(seed, *, size=40, queries=3, d=6):
    """A random corpus, queries [n, d], and scores [n, m] of a signal."""
    random = np.random.default_rng(seed)
    corpus = MemoryCorpus(random.normal(size=(size, d)), 3 * random.normal(size=(queries, size)))
    return corpus, random.normal(size=(queries, d)), random.normal(size=(queries, size))


class MemoryCorpus:
    """Documents [m, d] with the scores [n, m] that a re-ranker gives them for each of n queries."""

    def __init__(self, vectors, scores):
        self.vectors, self.scores = np.asarray(vectors), np.asarray(scores, dtype=float)
        self.searched, self.labelled, self.fetched = [], [], []

    def search(self, vectors, k, queries):
        excluded = np.array([query.excluded for query in queries])
        self.searched.append(len(vectors))
        similarities = np.einsum("nd,md->nm", vectors, self.vectors)
        similarities = np.where(np.arange(len(self.vectors)) == excluded[:, None], -np.inf, similarities)
        ids = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(similarities, ids, axis=1)
        return Hits(np.where(np.isfinite(found), ids, -1), found)

    def fetch(self, ids):
        self.fetched.extend(ids.tolist())
        return self.vectors[ids]

    @property
    def scheduler(self):
        return Scheduler(self.search, self.fetch)

    def tasks(self, queries, config, *, hits=10, signals=(), excluded=-1):
        tasks = []
        for row, vector in enumerate(queries):
            fusion = Fusion([signal.of_query(row) for signal in signals], weight=config.settings.signal_weight)
            query = Query(vector, hits, fusion, excluded=excluded, name=str(row))
            tasks.append(Task(config.chosen, config.settings, query))
        return tasks

    def label(self, tasks):
        answers = []
        for task in tasks:
            row = int(task.query.name)
            self.labelled += [(row, id_) for id_ in task.wanted_labels.tolist()]
            answers.append(self.scores[row, task.wanted_labels].copy())
        return answers

    def run(self, queries, config, *, label=None, **options):
        tasks = self.tasks(queries, config, **options)
        self.scheduler.run(tasks, label or self.label)
        return tasks
