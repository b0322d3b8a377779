"""Offsets of words and sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import texts

from tour_pyserini.phrases.spans import sentence_offsets, sentences_around, word_offsets


def cut(text, offsets):
    return [text[begin:end] for begin, end in offsets]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n ", []),
        ("It's 1901.", ["It", "'", "s", "1901", "."]),
        ("e\u0301tude in C", ["e\u0301tude", "in", "C"]),
        ("a👩‍👩‍👧b 🇫🇷!", ["a", "👩‍👩‍👧", "b", "🇫🇷", "!"]),
        ("two-thirds", ["two", "-", "thirds"]),
    ],
)
def test_words_of_examples(text, words):
    assert cut(text, word_offsets(text)) == words


@given(texts)
def test_words_cover_everything_but_white_space(text):
    offsets = word_offsets(text)
    end = 0
    for begin, after in offsets.tolist():
        assert end <= begin < after
        assert not text[end:begin].strip()
        assert text[begin].strip()
        end = after
    assert not text[end:].strip()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("no boundary at all", ["no boundary at all"]),
        ("One. Two? Three", ["One. ", "Two? ", "Three"]),
        ("J. K. Rowling met Dr. Who. He left.", ["J. K. Rowling met Dr. Who. ", "He left."]),
        ('He said "No." Then he left.', ['He said "No." ', "Then he left."]),
        ("It is irregular . Like this .", ["It is irregular . ", "Like this ."]),
        ("about 3.5 m. of it and e.g. this", ["about 3.5 m. of it and e.g. this"]),
        ("一。二。", ["一。", "二。"]),
    ],
)
def test_sentences_of_examples(text, sentences):
    assert cut(text, sentence_offsets(text)) == sentences


@given(texts)
def test_sentences_cover_the_text(text):
    assert "".join(cut(text, sentence_offsets(text))) == text
    assert all(after > begin for begin, after in sentence_offsets(text).tolist())


@given(texts, st.data())
def test_the_sentences_around_a_phrase_contain_it(text, data):
    words = word_offsets(text).tolist()
    if not words:
        return
    (begin, _), (_, end) = sorted([data.draw(st.sampled_from(words)), data.draw(st.sampled_from(words))])
    end = max(end, begin + 1)
    narrow, wide = (sentences_around(text, begin, end, sides=sides) for sides in (0, 1))
    assert wide[0] <= narrow[0] <= begin
    assert end <= narrow[1] <= wide[1] <= len(text)


def test_one_more_sentence_on_each_side():
    text = "One. Two. Three. Four. Five."
    start = text.index("Three")
    assert text[slice(*sentences_around(text, start, start + 5, sides=0))] == "Three. "
    assert text[slice(*sentences_around(text, start, start + 5, sides=1))] == "Two. Three. Four. "
    assert text[slice(*sentences_around(text, 0, 3, sides=1))] == "One. Two. "
    assert text[slice(*sentences_around(text, start, start + 11, sides=1))] == "Two. Three. Four. Five."
