"""Labels that searches have bought and the score cache has kept, for queries to learn from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.stores.store import Store
from tour_pyserini.training.adapter_fit import LabelledQueries

BATCH = 64
BACKGROUND = 100
"""Passages that stand for all passages without labels."""
LEAST_LABELS = 2
"""One label of a query alone says nothing about the order of its passages."""


def read_kept_labels(
    queries: Sequence[str],
    vectors: Floats,
    reranker: CachedReranker,
    *,
    store: Store,
    passage_vectors: Any,
    docids: Sequence[str],
    texts: Mapping[str, str],
    depth: int,
) -> tuple[LabelledQueries, Ids]:
    """Look up the kept labels of the passages near each query; none is bought.

    The score cache is keyed by the texts of pairs, so it can be asked for a pair, but not for all pairs of a query.

    Args:
        queries: the texts [n].
        vectors: their vectors [n, d].
        reranker: whose labels are read.
        store: the index.
        passage_vectors: a function from positions in the index [m] to vectors [m, d].
        docids: the docid at each position of the index.
        texts: the passages by docid.
        depth: how many of the nearest passages of a query are looked up.

    Returns:
        The queries that have at least two labels that differ, and their rows in `queries`. Their candidates are rows
        of `passages`, which holds the labelled passages only.
    """
    known: dict[int, str] = {}  # a passage is near many queries, and reading it takes time
    rows, found = [], []
    for start in range(0, len(queries), BATCH):
        near = store.search(vectors[start : start + BATCH], depth).ids
        pairs, places = [], []
        for row, ids in enumerate(near.tolist(), start):
            for id_ in ids:
                if id_ >= 0:
                    if id_ not in known:
                        known[id_] = texts[docids[id_]]
                    pairs.append((queries[row], known[id_]))
                    places.append((row, id_))
        labels = reranker.lookup(pairs)
        by_row: dict[int, list[tuple[int, float]]] = {}
        for (row, id_), label in zip(places, labels.tolist(), strict=True):
            if np.isfinite(label):
                by_row.setdefault(row, []).append((id_, label))
        for row, labelled in by_row.items():
            if len({label for _, label in labelled}) >= LEAST_LABELS:
                rows.append(row)
                found.append(labelled)
    most = max(map(len, found), default=0)
    ids = np.full((len(rows), most), -1, dtype=np.int64)
    labels = np.full((len(rows), most), np.nan)
    for number, labelled in enumerate(found):
        ids[number, : len(labelled)] = [id_ for id_, _ in labelled]
        labels[number, : len(labelled)] = [label for _, label in labelled]
    positions = np.unique(ids[ids >= 0])
    candidates = np.where(ids >= 0, np.searchsorted(positions, ids), -1)
    chosen = np.array(rows, dtype=np.int64)
    passages = np.asarray(passage_vectors(positions), dtype=np.float32)
    # Evenly spaced, so that it is the same on every run; an index that is sorted by topic is sampled evenly too.
    background = np.unique(np.linspace(0, store.size - 1, min(BACKGROUND, store.size)).astype(np.int64))
    around = np.asarray(passage_vectors(background), dtype=np.float32)
    return LabelledQueries(vectors[chosen], passages, positions, candidates, labels, background, around), chosen
