"""The words of a text, by where they stand in it."""

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
