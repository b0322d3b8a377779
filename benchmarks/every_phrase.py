"""The best phrases of an index by scoring every phrase in it, without an index."""

import numpy as np

from tour_pyserini.data.token_rows import ENDS, STARTS
from tour_pyserini.stores.phrases.completion import phrase_id
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex

AT_ONCE = 65_536  # rows read from the memory-mapped file


def every_phrase(index: PhraseIndex, query: np.ndarray, k: int, *, max_words: int) -> np.ndarray:
    """The ids of the k best among the phrases that are the best with their start or the best with their end.

    Args:
        index: the tokens.
        query: [2 d] the vector [start; end].
        k: how many.
        max_words: words of a phrase at most.
    """
    rows, count = index.rows, len(index.rows)
    sides = query.reshape(2, -1).T.astype(np.float32)
    scores = np.concatenate(
        [index.vectors[at : at + AT_ONCE].astype(np.float32) @ sides for at in range(0, count, AT_ONCE)]
    )
    start = np.where(rows["roles"] & STARTS, scores[:, 0], -np.inf)
    end = np.where(rows["roles"] & ENDS, scores[:, 1], -np.inf)
    passage, first, last = rows["passage"], rows["first"].astype(np.int32), rows["last"].astype(np.int32)
    # By start and by end: the best score so far, and how far away its partner is.
    best = np.full((2, count), -np.inf, dtype=np.float32)
    away = np.zeros((2, count), dtype=np.int32)
    for distance in range(min(2 * max_words, count)):
        one, other = slice(0, count - distance), slice(distance, None)
        is_phrase = (passage[one] == passage[other]) & (last[other] - first[one] < max_words)
        sums = np.where(is_phrase, start[one] + end[other], -np.inf)
        for side, place in enumerate((one, other)):
            better = sums > best[side, place]
            best[side, place] = np.where(better, sums, best[side, place])
            away[side, place] = np.where(better, distance, away[side, place])
    every = np.arange(count)
    begins, ends = np.concatenate([every, every - away[1]]), np.concatenate([every + away[0], every])
    values = best.reshape(-1)
    some = np.argpartition(-values, min(2 * k, len(values) - 1))[: 2 * k]  # a phrase may be there by both its sides
    some = some[values[some] > -np.inf]
    ids, places = np.unique(phrase_id(begins[some], ends[some]), return_index=True)
    return ids[np.lexsort((ids, -values[some][places]))][:k]
