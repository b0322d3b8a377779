"""Words and sentences of a text, by their offsets."""

import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]

# Letters and digits with all that combines with them; else one character as a reader sees it, such as a family of
# emoji or a flag, which is several code points.
_WORD = r"(?:[\p{L}\p{N}][\p{M}\p{Cf}]*)+|(?![\s\x1c-\x1f])\X"


def word_offsets(text: str) -> Offsets:
    """Where the words of a text begin and end: [w, 2], in characters of the text as it is, in order.

    A run of letters and digits is a word, every other character that is not white space is a word of its own. Nothing
    is normalised, so that `text[begin:end]` is the word.

    Example:
        >>> word_offsets("It's 1901.").tolist()
        [[0, 2], [2, 3], [3, 4], [5, 9], [9, 10]]
    """
    spans = [match.span() for match in _pattern().finditer(text)]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


@cache
def _pattern() -> Any:
    import regex

    return regex.compile(_WORD)


# A full stop, or several, what closes after it, and white space before something that is no small letter.
_END = re.compile(r"""[.!?…。！？]+["'”’»)\]]*(?:\s++(?![a-z])|$)|[。！？]["'”’»)\]]*""")
# Stops that end no sentence: initials and what is usually shortened before a name or a number.
_SHORT = re.compile(
    r"(?:^|[\s(\"'“.])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|Lt|Col|Gen|Capt|Sgt|Prof|Rev|vs|No|ca|cf)\.$"
)


def sentence_offsets(text: str) -> Offsets:
    """Where sentences begin and end: [s, 2], in characters; together they cover the text.

    White space belongs to the sentence before it. A text without a boundary is one sentence, an empty text has none.

    Example:
        >>> sentence_offsets("J. K. Rowling wrote it. When?").tolist()
        [[0, 24], [24, 29]]
    """
    ends = [match.end() for match in _END.finditer(text) if not _is_short(text, match)]
    if text and (not ends or ends[-1] < len(text)):
        ends.append(len(text))
    return np.array([*zip([0, *ends], ends, strict=False)], dtype=np.int64).reshape(-1, 2)


def around(text: str, begin: int, end: int, *, sides: int) -> tuple[int, int]:
    """The stretch of the sentences that hold `text[begin:end]`, and `sides` more before and after them.

    Example:
        >>> around("One. Two. Three. Four.", 5, 8, sides=1)
        (0, 17)
    """
    sentences = sentence_offsets(text)
    if not len(sentences):
        return 0, 0
    first = int(np.searchsorted(sentences[:, 0], begin, side="right")) - 1
    last = int(np.searchsorted(sentences[:, 0], max(begin, end - 1), side="right")) - 1
    return int(sentences[max(0, first - sides), 0]), int(sentences[min(len(sentences) - 1, last + sides), 1])


def _is_short(text: str, match: re.Match[str]) -> bool:
    return (
        match.group().strip() == "." and _SHORT.search(text[max(0, match.start() - 6) : match.start() + 1]) is not None
    )
