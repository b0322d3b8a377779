"""Passages: strings that know where their title ends."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.texts import Passage
from tour_pyserini.rerankers.score_cache import pair_key

texts = st.text(max_size=12)


@pytest.mark.parametrize(
    ("title", "text", "whole"), [("T", "x", "T x"), ("", "x", "x"), ("T", "", "T"), ("", "", ""), ("T ", " x", "T   x")]
)
def test_a_passage_equals_its_text_and_gives_its_parts(title, text, whole):
    made = Passage(title, text)
    assert (made, hash(made), made.parts, json.dumps(made)) == (whole, hash(whole), (title, text), json.dumps(whole))
    assert pair_key("model", "q", made) == pair_key("model", "q", whole)


@given(texts, texts, st.sampled_from([" ", "\n"]))
def test_copies_and_pickles_keep_the_parts(title, text, between):
    made = Passage(title, text, between)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert (type(other), other, other.parts) == (Passage, made, (title, text))


def test_strings_made_from_a_passage_are_plain_strings_and_tokenizers_accept_it():
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Passage("T", "x")
    assert {type(made_string) for made_string in (made[:2], made.strip(" "), made + "", *made.parts)} == {str}
    tokenizer = Tokenizer(models.WordLevel({"T": 0, "x": 1, "q": 2}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert tokenizer.encode_batch([("q", made)])[0].ids == [2, 0, 1]
