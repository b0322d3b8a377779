"""Tokens of an index: words, rows, and the filter."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import ODD, texts

from tour_pyserini.phrases.phrase_index import ENDS, STARTS, token_rows, word_offsets


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n ", []),
        ("It's 1901.", ["It", "'", "s", "1901", "."]),
        ("a👩‍👩‍👧b 🇫🇷! e\u0301tude", ["a", "👩‍👩‍👧", "b", "🇫🇷", "!", "e\u0301tude"]),
    ],
)
def test_words_of_examples(text, words):
    assert [text[begin:end] for begin, end in word_offsets(text)] == words


def roles(rows):
    return [(role & STARTS > 0, role & ENDS > 0) for role in rows["roles"].tolist()]


def test_the_first_token_of_a_word_begins_phrases_and_the_last_ends_them():
    text = "unaffordable, no"
    rows, tokens = token_rows(text, [(0, 0), (0, 2), (2, 7), (7, 12), (12, 13), (14, 16), (0, 0)], passage=4)
    assert tokens.tolist() == [1, 3, 4, 5]  # the middle of a word does neither
    assert roles(rows) == [(True, False), (False, True), (True, True), (True, True)]
    assert [text[row["begin"] : row["end"]] for row in rows] == ["unaffordable", "unaffordable", ",", "no"]
    assert rows["first"].tolist() == rows["last"].tolist() == [0, 0, 1, 2]
    assert roles(token_rows("ab cd", [(0, 1), (1, 4), (4, 5)])[0]) == [(True, False), (False, True)]  # a | b c | d
    rows, _ = token_rows(" ".join(ODD), [(offset, offset + 1) for offset in range(len(" ".join(ODD)))])
    assert {"👩‍👩‍👧", "👍🏽", "e\u0301"} <= {" ".join(ODD)[row["begin"] : row["end"]] for row in rows}


@given(texts, st.data())
def test_every_phrase_consists_of_whole_words_of_the_original_text(text, data):
    """Tokens may begin and end anywhere: inside emoji, between a letter and its accent, across blanks."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    rows, tokens = token_rows(text, list(itertools.pairwise(cuts)))
    words = word_offsets(text).tolist()
    started, ended = ([row for row in rows if row["roles"] & role] for role in (STARTS, ENDS))
    assert len(rows) == len(tokens) and sorted(tokens.tolist()) == tokens.tolist()
    assert bool(started) == bool(ended) == bool(words)
    assert all(start["begin"] == words[start["first"]][0] for start in started)
    assert all(end["end"] == words[end["last"]][1] for end in ended)
    # No two tokens begin with the same word, or end with it.
    assert len({int(row["first"]) for row in started}) == len(started)
    assert len({int(row["last"]) for row in ended}) == len(ended)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (-np.inf, [(True, True), (True, True), (True, True)]),
        (-2.0, [(True, False), (True, True)]),
        (2.5, [(True, False), (False, True)]),  # the best end is kept, although it is below the threshold
    ],
)
def test_the_filter_removes_roles_but_keeps_the_best(threshold, expected):
    kept = {"logits": np.array([[9.0, 9.0], [3.0, -9.0], [-1.0, 2.0], [-5.0, -2.0]]), "threshold": threshold}
    rows, tokens = token_rows("a b c", [(0, 0), (0, 1), (2, 3), (4, 5)], **kept)
    assert roles(rows) == expected and tokens.tolist() == list(range(1, len(expected) + 1))
    assert [len(part) for part in token_rows("", [(0, 0)], **kept)] == [0, 0]
