"""Phrases from tokens: each start with its best end, each end with its best start."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.data.token_rows import ENDS, STARTS, Rows
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex

_BITS = 16
LONGEST = (1 << (_BITS - 1)) - 1
"""Words of a phrase at most: a word has two tokens, and their distance must fit a phrase's id."""


class Phrases(NamedTuple):
    """Phrases of one query, best first: ids [m], scores [m] and passages [m]."""

    ids: Ids
    scores: Floats
    passages: Ids


def phrase_id(start: Ids, end: Ids) -> Ids:
    """The number of the phrase from one row of the index to another."""
    return (start << _BITS) | (end - start)


def start_and_end(ids: Ids) -> tuple[Ids, Ids]:
    """The rows where phrases begin and end."""
    start = ids >> _BITS
    return start, start + (ids & ((1 << _BITS) - 1))


def complete(index: PhraseIndex, query: Floats, starts: Ids, ends: Ids, *, max_words: int) -> Phrases:
    """The phrases that touch the given tokens and are the best of all with their start, or with their end.

    A phrase lies in one passage and has at most `max_words` words; its score is the sum of two inner products. Of equal
    partners the nearest is the best; equal scores are in the order of the corpus.

    Args:
        index: the tokens.
        query: [2 d] the vector [start; end].
        starts: [a] rows at which phrases may begin.
        ends: [b] rows at which phrases may end.
        max_words: words of a phrase at most.
    """
    near = _neighbourhood(np.union1d(starts, ends), 2 * max_words - 1, len(index.rows))
    rows = index.rows[near]
    with_start, with_end = (index.vectors[near].astype(np.float32) @ query.reshape(2, -1).T.astype(np.float32)).T
    with_start = np.where(rows["roles"] & STARTS, with_start, -np.inf)
    with_end = np.where(rows["roles"] & ENDS, with_end, -np.inf)
    forward = _scores(near, rows, with_start, with_end, max_words)
    # Row e of `backward` holds the scores of the phrases that end at e, the nearest start first.
    backward = np.full_like(forward, -np.inf)
    for distance in range(min(forward.shape[1], len(near))):
        backward[distance:, distance] = forward[: len(near) - distance, distance]
    wanted_start, wanted_end = np.isin(near, starts), np.isin(near, ends)
    begin, length = np.arange(len(near)), forward.argmax(axis=1)
    by_start = begin[(forward.max(axis=1) > -np.inf) & (wanted_start | wanted_end[_within(begin + length, near)])]
    back = backward.argmax(axis=1)
    by_end = begin[(backward.max(axis=1) > -np.inf) & (wanted_end | wanted_start[_within(begin - back, near)])]
    first = np.concatenate([by_start, by_end - back[by_end]])
    last = np.concatenate([by_start + length[by_start], by_end])
    ids, places = np.unique(phrase_id(near[first], near[last]), return_index=True)
    scores = forward[first[places], (last - first)[places]]
    order = np.lexsort((ids, -scores))
    return Phrases(ids[order], scores[order], rows["passage"][first[places]][order].astype(np.int64))


def _neighbourhood(rows: Ids, reach: int, count: int) -> Ids:
    """All rows at most `reach` from one of those given, in order."""
    near = np.unique(rows[:, None] + np.arange(-reach, reach + 1))
    return near[(near >= 0) & (near < count)]


def _scores(near: Ids, rows: Rows, with_start: Floats, with_end: Floats, max_words: int) -> NDArray[np.float32]:
    """[u, 2 max_words] the score of the phrase from row i to the j-th after it, minus infinity if it is none."""
    first, last = rows["first"].astype(np.int64), rows["last"].astype(np.int64)
    scores = np.full((len(near), 2 * max_words), -np.inf, dtype=np.float32)
    for distance in range(min(2 * max_words, len(near))):
        one, other = slice(0, len(near) - distance), slice(distance, None)
        is_phrase = (near[other] - near[one] == distance) & (rows["passage"][other] == rows["passage"][one])
        is_phrase &= last[other] - first[one] < max_words
        scores[one, distance] = np.where(is_phrase, with_start[one] + with_end[other], -np.inf)
    return scores


def _within(places: Ids, near: Ids) -> Ids:
    return np.clip(places, 0, len(near) - 1)
