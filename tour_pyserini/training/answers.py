"""Where answers stand in a text."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from tour_pyserini.phrases.words import word_offsets


def answer_spans(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Where answers stand in a text, word by word and without regard to case: (begin, end) in characters, in order.

    Example:
        >>> answer_spans("Linda Davis sang; LINDA  DAVIS won.", ["linda davis"])
        [(0, 11), (18, 30)]
    """
    words, plain, places = _words_of(text)
    found = set()
    for answer in answers:
        wanted = [_plain(answer[begin:end]) for begin, end in word_offsets(answer).tolist()]
        for place in places.get(wanted[0], []) if wanted else []:
            if plain[place : place + len(wanted)] == wanted:
                found.add((words[place][0], words[place + len(wanted) - 1][1]))
    return sorted(found)


@lru_cache(maxsize=4096)  # a training asks for many answers in the same texts
def _words_of(text: str) -> tuple[list[list[int]], list[str], dict[str, list[int]]]:
    """Where the words stand, what they are without case, and the places of each."""
    words = word_offsets(text).tolist()
    plain = [_plain(text[begin:end]) for begin, end in words]
    places: dict[str, list[int]] = {}
    for place, word in enumerate(plain):
        places.setdefault(word, []).append(place)
    return words, plain, places


def _plain(word: str) -> str:
    return unicodedata.normalize("NFD", word).casefold()
