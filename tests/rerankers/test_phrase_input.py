"""The input that a re-ranker gets for a phrase."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_texts import texts

from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.spans import word_offsets

TEXT = "One is here. Two are there. Three went off. Four stay."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"context": "1"}, "Title Two [S] are there [E]. "),
        ({}, "Title One is here. Two [S] are there [E]. Three went off. "),
        (
            {"context": "paragraph", "separator": " [SEP] "},
            f"Title [SEP] {TEXT[:17]}[S] are there [E]{TEXT[26:]}",
        ),
        ({"context": "1", "title": False}, "Two [S] are there [E]. "),
        ({"context": "passage"}, f"Title {TEXT}"),
        ({"context": "passage", "title": False}, TEXT),
    ],
)
def test_the_input_for_each_context(options, expected):
    begin = TEXT.index("are")
    shown = PhraseInput(**options)("Title", TEXT, begin, begin + len("are there"))
    assert shown == expected


def test_the_context_passage_keeps_title_and_text_separate_and_an_empty_title_has_no_separator():
    assert PhraseInput(context="passage")("Title", TEXT, 0, 3).parts == ("Title", TEXT)
    assert isinstance(PhraseInput(context="passage")("Title", TEXT, 0, 3), Passage)
    assert PhraseInput(context="1", separator=" [SEP] ")("", TEXT, 0, 3) == "[S] One [E] is here. "


@given(texts, st.data(), st.sampled_from(["1", "3", "paragraph"]))
def test_the_input_without_its_marks_is_the_original_text(text, data, context):
    words = word_offsets(text).tolist()
    if not words:
        return
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    begin, end = words[first][0], words[last][1]
    shown = PhraseInput(context=context, title=False)("", text, begin, end)
    before, after = text[:begin], text[end:]
    marked = f"[S] {text[begin:end]} [E]"
    at = (
        shown.index(marked)
        if "[S]" not in text
        else next(i for i in range(len(shown)) if shown.startswith(marked, i) and before.endswith(shown[:i]))
    )
    assert before.endswith(shown[:at])
    assert after.startswith(shown[at + len(marked) :])


def test_settings_are_read_from_the_folder_of_a_reranker(tmp_path):
    PhraseInput(context="1", separator=" </s> ").save(tmp_path)
    assert read_phrase_input(tmp_path) == PhraseInput(context="1", separator=" </s> ")
    assert read_phrase_input(str(tmp_path), context="paragraph", title=None).context == "paragraph"
    assert read_phrase_input("some/name") == read_phrase_input(object()) == PhraseInput()
    (tmp_path / "tour-phrase-input.json").write_text('{"contexts": 3}')
    with pytest.raises(TourError, match="does not hold the settings of a phrase input"):
        read_phrase_input(tmp_path)
    with pytest.raises(TourError, match="unknown context '2'; choose one of 1, 3"):
        PhraseInput(context="2")
