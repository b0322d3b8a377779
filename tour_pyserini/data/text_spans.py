"""Find the words and sentences of a text, as offsets of their characters."""

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
