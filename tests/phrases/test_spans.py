"""Offsets of words and sentences, rows of tokens, and the filter."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import ODD, texts

from tour_pyserini.phrases import spans
from tour_pyserini.phrases.spans import ENDS, STARTS, filter_rows, sentences_around, token_rows, word_offsets


@pytest.mark.parametrize(
    ("unit", "text", "parts"),
    [
        ("word", " \n ", []),
        ("word", "It's 1901.", ["It", "'", "s", "1901", "."]),
        ("word", "a👩‍👩‍👧b 🇫🇷! e\u0301tude", ["a", "👩‍👩‍👧", "b", "🇫🇷", "!", "e\u0301tude"]),
        ("sentence", "", []),
        ("sentence", "One. Two? Three", ["One. ", "Two? ", "Three"]),
        ("sentence", "J. K. Rowling met Dr. Who. He left.", ["J. K. Rowling met Dr. Who. ", "He left."]),
        ("sentence", 'He said "No." Then he left.', ['He said "No." ', "Then he left."]),
        ("sentence", "about 3.5 m. of it and e.g. this", ["about 3.5 m. of it and e.g. this"]),
        ("sentence", "一。二。", ["一。", "二。"]),
    ],
)
def test_words_and_sentences_of_examples(unit, text, parts):
    assert [text[begin:end] for begin, end in getattr(spans, f"{unit}_offsets")(text)] == parts


@given(texts, st.data())
def test_words_and_sentences_cover_the_text(text, data):
    words, end = word_offsets(text).tolist(), 0
    for begin, after in [*words, (len(text), len(text))]:
        assert end <= begin and not text[end:begin].strip()
        end = after
    assert "".join(text[begin:end] for begin, end in spans.sentence_offsets(text)) == text
    if words:
        (begin, _), (_, end) = sorted([data.draw(st.sampled_from(words)), data.draw(st.sampled_from(words))])
        end = max(end, begin + 1)
        narrow, wide = (sentences_around(text, begin, end, sides=sides) for sides in (0, 1))
        assert wide[0] <= narrow[0] <= begin < end <= narrow[1] <= wide[1] <= len(text)


def test_one_more_sentence_on_each_side():
    text = "One. Two. Three. Four. Five."
    assert text[slice(*sentences_around(text, 10, 15, sides=0))] == "Three. "
    assert text[slice(*sentences_around(text, 10, 15, sides=1))] == "Two. Three. Four. "
    assert sentences_around("", 0, 0, sides=1) == (0, 0)


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
    rows, _ = token_rows("a b c", [(0, 1), (2, 3), (4, 5)])
    few, positions = filter_rows(rows, np.array([[3.0, -9.0], [-1.0, 2.0], [-5.0, -2.0]]), threshold)
    assert roles(few) == expected and positions.tolist() == list(range(len(expected)))
    assert roles(rows) == [(True, True)] * 3  # the given rows are not changed
    assert [len(part) for part in filter_rows(rows[:0], np.zeros((0, 2)), threshold)] == [0, 0]
