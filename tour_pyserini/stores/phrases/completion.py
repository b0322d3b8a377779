"""Phrases from tokens: find the best end for each start token, and the best start for each end token.

The number of a phrase (its id) holds the row of its first token and the distance to the row of its last token.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.token_rows import ENDS, STARTS, Rows
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex

_DISTANCE_BITS = 16
LONGEST_PHRASE = (1 << (_DISTANCE_BITS - 1)) - 1
"""The largest possible limit of words of a phrase: a word has at most two rows, and the distance has 16 bits."""


class Phrases(NamedTuple):
    """Phrases found for one query, best first: their ids [m], scores [m], and positions of their passages [m]."""

    ids: Ids
    scores: Floats
    passages: Ids


def phrase_id(start: Ids, end: Ids) -> Ids:
    """The ids of the phrases whose first and last tokens are at these rows."""
    return (start << _DISTANCE_BITS) | (end - start)


def start_and_end(ids: Ids) -> tuple[Ids, Ids]:
    """The rows of the first and last tokens of phrases; the inverse of `phrase_id`."""
    start = ids >> _DISTANCE_BITS
    return start, start + (ids & ((1 << _DISTANCE_BITS) - 1))


def complete(index: PhraseIndex, query: Floats, starts: Ids, ends: Ids, *, max_words: int) -> Phrases:
    """Find phrases that begin at one of the starts or end at one of the ends.

    A phrase is found if no other phrase with the same start has a higher score, or no other phrase with the same end.
    A phrase is inside one passage and has at most `max_words` words. Its score is the inner product of its first token
    with the start half of the query, plus that of its last token with the end half. Of several best phrases with the
    same start (or end) only the shortest is found. Phrases with equal scores are in the order of the corpus.

    Args:
        index: the tokens.
        query: [2 d] the vector [start; end].
        starts: [a] rows of first tokens.
        ends: [b] rows of last tokens.
        max_words: largest number of words of a phrase.
    """
    near = _neighbourhood(np.union1d(starts, ends), 2 * max_words - 1, len(index.rows))
    rows = index.rows[near]
    with_start, with_end = (index.vectors[near].astype(np.float32) @ query.reshape(2, -1).T.astype(np.float32)).T
    with_start = np.where(rows["roles"] & STARTS, with_start, -np.inf)
    with_end = np.where(rows["roles"] & ENDS, with_end, -np.inf)
    forward = _scores(near, rows, with_start, with_end, max_words)
    # forward[i, j] is the score of the phrase from row i to row i + j, backward[i, j] of that from row i - j to row i.
    backward = np.full_like(forward, -np.inf)
    for distance in range(min(forward.shape[1], len(near))):
        backward[distance:, distance] = forward[: len(near) - distance, distance]
    is_start, is_end = np.isin(near, starts), np.isin(near, ends)
    every, to_end, to_start = np.arange(len(near)), forward.argmax(axis=1), backward.argmax(axis=1)
    by_start = every[(forward.max(axis=1) > -np.inf) & (is_start | is_end[_clipped(every + to_end, near)])]
    by_end = every[(backward.max(axis=1) > -np.inf) & (is_end | is_start[_clipped(every - to_start, near)])]
    first = np.concatenate([by_start, by_end - to_start[by_end]])
    last = np.concatenate([by_start + to_end[by_start], by_end])
    ids, unique = np.unique(phrase_id(near[first], near[last]), return_index=True)
    first, last = first[unique], last[unique]
    scores = forward[first, last - first]
    order = np.lexsort((ids, -scores))
    return Phrases(ids[order], scores[order], rows["passage"][first][order].astype(np.int64))


def _neighbourhood(rows: Ids, reach: int, count: int) -> Ids:
    """All rows of the index (of `count` rows) that are at most `reach` away from one of the given rows, in order."""
    near = np.unique(rows[:, None] + np.arange(-reach, reach + 1))
    return near[(near >= 0) & (near < count)]


def _scores(near: Ids, rows: Rows, with_start: Floats, with_end: Floats, max_words: int) -> NDArray[np.float32]:
    """[u, 2 max_words] at [i, j] the score of the phrase from `near[i]` to `near[i + j]`; minus infinity if none."""
    first, last = rows["first"].astype(np.int64), rows["last"].astype(np.int64)
    scores = np.full((len(near), 2 * max_words), -np.inf, dtype=np.float32)
    for distance in range(min(2 * max_words, len(near))):
        start, end = slice(0, len(near) - distance), slice(distance, None)
        is_phrase = (near[end] - near[start] == distance) & (rows["passage"][end] == rows["passage"][start])
        is_phrase &= last[end] - first[start] < max_words
        scores[start, distance] = np.where(is_phrase, with_start[start] + with_end[end], -np.inf)
    return scores


def _clipped(positions: Ids, near: Ids) -> Ids:
    return np.clip(positions, 0, len(near) - 1)
