"""Rows of tokens: spans of the original text, and the filter."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import ODD, texts

from tour_pyserini.phrases.spans import ENDS, STARTS, filter_rows, token_rows, word_offsets


def roles(rows):
    return [(text_role & STARTS > 0, text_role & ENDS > 0) for text_role in rows["roles"].tolist()]


def test_the_first_token_of_a_word_begins_phrases_and_the_last_ends_them():
    text = "unaffordable, no"
    rows, tokens = token_rows(text, [(0, 0), (0, 2), (2, 7), (7, 12), (12, 13), (14, 16), (0, 0)], passage=4)
    assert tokens.tolist() == [1, 3, 4, 5]  # the middle of a word does neither
    assert roles(rows) == [(True, False), (False, True), (True, True), (True, True)]
    assert [text[row["begin"] : row["end"]] for row in rows] == ["unaffordable", "unaffordable", ",", "no"]
    assert rows["first"].tolist() == rows["last"].tolist() == [0, 0, 1, 2]
    assert set(rows["passage"].tolist()) == {4}


def test_a_token_of_several_words_begins_the_first_and_ends_the_last():
    rows, _ = token_rows("a-b c", [(0, 2), (2, 5)])  # a- | b c
    assert roles(rows) == [(True, True), (True, True)]
    assert rows["first"].tolist() == [0, 2]
    assert rows["last"].tolist() == [1, 3]
    rows, _ = token_rows("ab cd", [(0, 1), (1, 4), (4, 5)])  # a | b c | d
    assert roles(rows) == [(True, False), (False, True)]
    assert [(row["begin"], row["end"]) for row in rows] == [(0, 2), (3, 5)]


def test_texts_without_words_have_no_rows():
    for text, offsets in [("", []), ("", [(0, 0)]), ("  ", [(0, 1), (1, 2)])]:
        rows, tokens = token_rows(text, offsets)
        assert len(rows) == len(tokens) == 0


@given(texts, st.data())
def test_every_phrase_consists_of_whole_words_of_the_original_text(text, data):
    """Tokens may begin and end anywhere: inside emoji, between a letter and its accent, across blanks."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    offsets = list(itertools.pairwise(cuts))
    rows, tokens = token_rows(text, offsets)
    words = word_offsets(text).tolist()
    begins, ends = {begin for begin, _ in words}, {end for _, end in words}
    started = [row for row in rows if row["roles"] & STARTS]
    ended = [row for row in rows if row["roles"] & ENDS]
    assert len(rows) == len(tokens)
    assert sorted(tokens.tolist()) == tokens.tolist()
    assert bool(started) == bool(ended) == bool(words)
    for start in started:
        assert start["begin"] in begins
        for end in ended:
            if end["last"] >= start["first"]:
                phrase = text[start["begin"] : end["end"]]
                assert phrase == phrase.strip() != ""
                assert end["end"] in ends
                assert word_offsets(text)[int(start["first"]), 0] == start["begin"]
    # No two tokens begin with the same word, or end with it.
    assert len({int(row["first"]) for row in started}) == len(started)
    assert len({int(row["last"]) for row in ended}) == len(ended)


def test_emoji_flags_and_accents_stay_whole():
    text = " ".join(ODD)
    rows, _ = token_rows(text, [(offset, offset + 1) for offset in range(len(text))])
    found = {text[row["begin"] : row["end"]] for row in rows}
    assert {"👩‍👩‍👧", "👍🏽", "🇫🇷", "e\u0301"} <= found


LOGITS = np.array([[3.0, -9.0], [-1.0, 2.0], [-5.0, -2.0]])


@pytest.mark.parametrize(
    ("threshold", "kept", "expected"),
    [
        (-np.inf, [0, 1, 2], [(True, True), (True, True), (True, True)]),
        (-2.0, [0, 1], [(True, False), (True, True)]),
        (2.5, [0, 1], [(True, False), (False, True)]),  # the best end is kept, although it is below the threshold
        (99.0, [0, 1], [(True, False), (False, True)]),
    ],
)
def test_the_filter_removes_roles_but_keeps_the_best(threshold, kept, expected):
    rows, _ = token_rows("a b c", [(0, 1), (2, 3), (4, 5)])
    few, positions = filter_rows(rows, LOGITS, threshold)
    assert positions.tolist() == kept
    assert roles(few) == expected
    assert roles(rows) == [(True, True)] * 3  # the given rows are not changed


def test_the_filter_accepts_no_rows():
    rows, _ = token_rows("", [])
    assert [len(part) for part in filter_rows(rows, np.zeros((0, 2)), 0.0)] == [0, 0]
