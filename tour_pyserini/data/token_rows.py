"""Tokens of passages as rows of a phrase index."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.data.text_spans import Offsets, word_offsets

STARTS, ENDS = 1, 2
"""Roles of a token, as bits: a phrase may begin with it, a phrase may end with it."""

ROW = np.dtype(
    [
        ("passage", "<u4"),  # the passage's place in the corpus
        ("first", "<u4"),  # the words that the token begins and ends in, counted in the passage
        ("last", "<u4"),
        ("begin", "<u4"),  # in characters of the passage's text: where the first of them begins and the last one ends
        ("end", "<u4"),
        ("roles", "u1"),
    ]
)
Rows = NDArray[np.void]


def token_rows(text: str, offsets: Any, *, passage: int = 0) -> tuple[Rows, NDArray[np.int64]]:
    """The rows of a text's tokens, and which tokens they are: those that begin or end a word.

    A phrase begins where a word begins and ends where a word ends, so that it is never half a word, half an emoji or a
    letter without its accent. Of a word of several tokens the first may begin a phrase and the last may end one.

    Args:
        text: the passage's text as it is.
        offsets: [t, 2] where the tokens begin and end in it, in order; tokens without extent are passed over.
        passage: the passage's place in the corpus.

    Returns:
        rows [r] and the tokens' positions [r] in `offsets`.
    """
    words = word_offsets(text)
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    tokens = np.flatnonzero(spans[:, 1] > spans[:, 0])
    first, last = _words_of(words, spans[tokens])
    real = (last >= first) & (first < len(words))
    tokens, first, last = tokens[real], first[real], last[real]
    roles = np.zeros(len(tokens), dtype=np.uint8)
    roles[first > np.concatenate([[-1], last[:-1]])[: len(first)]] |= STARTS
    roles[last < np.concatenate([first[1:], [len(words)]])[: len(last)]] |= ENDS
    kept = roles > 0
    rows = np.zeros(int(kept.sum()), dtype=ROW)
    rows["passage"] = passage
    rows["first"], rows["last"], rows["roles"] = first[kept], last[kept], roles[kept]
    rows["begin"], rows["end"] = words[first[kept], 0], words[last[kept], 1]
    return rows, tokens[kept]


def _words_of(words: Offsets, spans: Offsets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and last word that each span [t, 2] touches; the last before the first where it touches none."""
    return np.searchsorted(words[:, 1], spans[:, 0], side="right"), np.searchsorted(words[:, 0], spans[:, 1]) - 1


def filtered(rows: Rows, logits: NDArray[np.floating], threshold: float) -> tuple[Rows, NDArray[np.int64]]:
    """The rows of one passage that keep a role, and where they were.

    A token keeps a role if the filter's logit for it is above the threshold. The best start and the best end are kept
    in any case, so that every passage that has words has a phrase when one end follows the other.

    Args:
        rows: [r] rows of one passage.
        logits: [r, 2] how likely an answer begins and ends with each of them.
        threshold: minus infinity keeps everything.

    Returns:
        rows [k] and their positions [k].
    """
    rows = rows.copy()
    for column, role in enumerate((STARTS, ENDS)):
        able = np.flatnonzero(rows["roles"] & role)
        if len(able):
            lost = able[~(logits[able, column] > threshold)]
            rows["roles"][np.setdiff1d(lost, able[logits[able, column].argmax()])] &= ~np.uint8(role)
    kept = np.flatnonzero(rows["roles"])
    return rows[kept], kept
