"""Spans of a text, as offsets of its characters: words, sentences, and the tokens that phrases begin and end with."""

import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]

# A run of letters and digits with their combining marks; otherwise one character as a reader sees it (a flag or a
# family emoji consists of several code points).
_WORD = r"(?:[\p{L}\p{N}][\p{M}\p{Cf}]*)+|(?![\s\x1c-\x1f])\X"
# Full stops or similar, closing quotes or brackets, then white space that is not followed by a small letter.
_SENTENCE_END = re.compile(r"""[.!?…。！？]+["'”’»)\]]*(?:\s++(?![a-z])|$)|[。！？]["'”’»)\]]*""")
# Full stops that do not end a sentence: initials, and abbreviations before a name or a number.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“.])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|Lt|Col|Gen|Capt|Sgt|Prof|Rev|vs|No|ca|cf)\.$"
)


def word_offsets(text: str) -> Offsets:
    """Find where the words of a text begin and end: [w, 2], in characters of the unchanged text, in order.

    A run of letters and digits is a word, every other character that is not white space is a word of its own. The
    text is not normalised: `text[begin:end]` is the word.

    Example:
        >>> word_offsets("It's 1901.").tolist()
        [[0, 2], [2, 3], [3, 4], [5, 9], [9, 10]]
    """
    spans = [match.span() for match in _word_pattern().finditer(text)]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def sentence_offsets(text: str) -> Offsets:
    """Find where sentences begin and end: [s, 2], in characters; together they cover the text.

    White space belongs to the sentence before it. A text without a boundary is one sentence, an empty text has none.

    Example:
        >>> sentence_offsets("J. K. Rowling wrote it. When?").tolist()
        [[0, 24], [24, 29]]
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if not _is_abbreviation(text, match)]
    if text and (not ends or ends[-1] < len(text)):
        ends.append(len(text))
    return np.array([*zip([0, *ends], ends, strict=False)], dtype=np.int64).reshape(-1, 2)


def sentences_around(text: str, begin: int, end: int, *, sides: int) -> tuple[int, int]:
    """Find the span of the sentences that contain `text[begin:end]`, with `sides` more sentences before and after them.

    Example:
        >>> sentences_around("One. Two. Three. Four.", 5, 8, sides=1)
        (0, 17)
    """
    sentences = sentence_offsets(text)
    if not len(sentences):
        return 0, 0
    first = int(np.searchsorted(sentences[:, 0], begin, side="right")) - 1
    last = int(np.searchsorted(sentences[:, 0], max(begin, end - 1), side="right")) - 1
    return int(sentences[max(0, first - sides), 0]), int(sentences[min(len(sentences) - 1, last + sides), 1])


@cache
def _word_pattern() -> Any:
    import regex

    return regex.compile(_WORD)


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    return (
        match.group().strip() == "."
        and _ABBREVIATION.search(text[max(0, match.start() - 6) : match.start() + 1]) is not None
    )


STARTS, ENDS = 1, 2
"""Roles of a token, as bits: a phrase may begin with it; a phrase may end with it."""

ROW = np.dtype(
    [
        ("passage", "<u4"),  # position of the passage in the corpus
        ("first", "<u4"),  # positions of the words in which the token begins and ends
        ("last", "<u4"),
        ("begin", "<u4"),  # offsets in the passage's text: begin of the first word, end of the last word
        ("end", "<u4"),
        ("roles", "u1"),
    ]
)
Rows = NDArray[np.void]


def token_rows(text: str, offsets: Any, *, passage: int = 0) -> tuple[Rows, NDArray[np.int64]]:
    """Make the rows of a text: one for each token that begins or ends a word.

    A phrase begins where a word begins and ends where a word ends, so it never contains half a word, half an emoji
    or a letter without its accent. If a word has several tokens, the first may begin a phrase and the last may end one.

    Args:
        text: the unchanged text of the passage.
        offsets: [t, 2] begin and end of each token in the text, in order; empty tokens are skipped.
        passage: position of the passage in the corpus.

    Returns:
        rows [r] and the tokens' positions [r] in `offsets`.
    """
    words = word_offsets(text)
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    tokens = np.flatnonzero(spans[:, 1] > spans[:, 0])
    first, last = _words_of(words, spans[tokens])
    in_words = (last >= first) & (first < len(words))
    tokens, first, last = tokens[in_words], first[in_words], last[in_words]
    roles = np.zeros(len(tokens), dtype=np.uint8)
    roles[first > np.concatenate([[-1], last[:-1]])[: len(first)]] |= STARTS
    roles[last < np.concatenate([first[1:], [len(words)]])[: len(last)]] |= ENDS
    has_role = roles > 0
    rows = np.zeros(int(has_role.sum()), dtype=ROW)
    rows["passage"] = passage
    rows["first"], rows["last"], rows["roles"] = first[has_role], last[has_role], roles[has_role]
    rows["begin"], rows["end"] = words[first[has_role], 0], words[last[has_role], 1]
    return rows, tokens[has_role]


def _words_of(words: Offsets, spans: Offsets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and last word that each span [t, 2] touches; last < first if it touches none."""
    return np.searchsorted(words[:, 1], spans[:, 0], side="right"), np.searchsorted(words[:, 0], spans[:, 1]) - 1


def filter_rows(rows: Rows, logits: NDArray[np.floating], threshold: float) -> tuple[Rows, NDArray[np.int64]]:
    """Remove the roles of a passage's rows that the filter rejects, and the rows that have no role left.

    A token keeps a role if its logit for that role is above the threshold. The best start and the best end are always
    kept, so that a passage still has a phrase if its best end is not before its best start.

    Args:
        rows: [r] rows of one passage.
        logits: [r, 2] how likely an answer begins (column 0) and ends (column 1) with each row's token.
        threshold: lower limit of the logits; minus infinity keeps everything.

    Returns:
        the remaining rows [k] and their positions [k] in the given rows.
    """
    rows = rows.copy()
    for column, role in enumerate((STARTS, ENDS)):
        with_role = np.flatnonzero(rows["roles"] & role)
        if len(with_role):
            rejected = with_role[~(logits[with_role, column] > threshold)]
            best = with_role[logits[with_role, column].argmax()]
            rows["roles"][np.setdiff1d(rejected, best)] &= ~np.uint8(role)
    kept = np.flatnonzero(rows["roles"])
    return rows[kept], kept
