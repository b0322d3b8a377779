"""The input that a re-ranker gets for a phrase."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import texts

from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import word_offsets
from tour_pyserini.phrases.reranker_input import RerankerInput

TEXT = "One is here. Two are there. Three went off. Four stay."


@pytest.mark.parametrize(
    ("options", "title", "expected"),
    [
        ({"context": "1"}, "Title", "Title Two [S] are there [E]. "),
        ({}, "Title", "Title One is here. Two [S] are there [E]. Three went off. "),
        ({"context": "paragraph", "title": False}, "Title", f"{TEXT[:17]}[S] are there [E]{TEXT[26:]}"),
        ({"context": "1", "separator": " [SEP] "}, "Title", "Title [SEP] Two [S] are there [E]. "),
        ({"context": "1", "separator": " [SEP] "}, "", "Two [S] are there [E]. "),
        ({"context": "passage"}, "Title", f"Title {TEXT}"),
    ],
)
def test_the_input_for_each_context(options, title, expected):
    assert RerankerInput(**options)(title, TEXT, 17, 26) == expected


@given(texts, st.data(), st.sampled_from(["1", "3", "paragraph"]))
def test_the_input_without_its_marks_is_the_original_text(text, data, context):
    if words := word_offsets(text).tolist():
        first = data.draw(st.integers(0, len(words) - 1))
        begin, end = words[first][0], words[data.draw(st.integers(first, len(words) - 1))][1]
        reranker_input = RerankerInput(context=context, title=False)
        left, right = reranker_input.context_span(text, begin, end)
        narrow = RerankerInput(context="1").context_span(text, begin, end)
        assert left <= narrow[0] <= begin < end <= narrow[1] <= right
        assert reranker_input("", text, begin, end) == f"{text[left:begin]}[S] {text[begin:end]} [E]{text[end:right]}"


@pytest.mark.parametrize(
    "sentences",
    [
        ["One. ", "Two? ", "Three"],
        ["J. K. Rowling met Dr. Who. ", "He left."],
        ['He said "No." ', "Then he left."],
        ["about 3.5 m. of it and e.g. this"],
        ["一。", "二。"],
    ],
)
def test_the_context_of_a_phrase_is_its_sentence_or_one_more_on_each_side(sentences):
    text, begin = "".join(sentences), 0
    for number, sentence in enumerate(sentences):
        end = begin + len(sentence)
        assert text[slice(*RerankerInput(context="1").context_span(text, begin, end))] == sentence
        around = "".join(sentences[max(0, number - 1) : number + 2])
        assert text[slice(*RerankerInput(context="3").context_span(text, begin, end))] == around
        begin = end
    assert RerankerInput().context_span("", 0, 0) == (0, 0)


def test_settings_are_read_from_the_folder_of_a_reranker(tmp_path):
    RerankerInput(context="1", separator=" </s> ").save(tmp_path)
    assert RerankerInput.read(tmp_path) == RerankerInput(context="1", separator=" </s> ")
    assert RerankerInput.read(str(tmp_path), context="paragraph", title=None).context == "paragraph"
    assert RerankerInput.read("some/name") == RerankerInput.read(object()) == RerankerInput()
    with pytest.raises(TourError, match="context"):
        RerankerInput.read(tmp_path, context="2")
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    with pytest.raises(TourError, match=f"{file} is not JSON"):
        RerankerInput.read(tmp_path)
