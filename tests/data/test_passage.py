import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.documents import Passage
from tour_pyserini.data.texts import open_texts
from tour_pyserini.rerankers.score_cache import pair_key

texts = st.text(max_size=12)


@pytest.mark.parametrize(
    ("title", "text", "whole"), [("T", "x", "T x"), ("", "x", "x"), ("T", "", "T"), ("", "", ""), ("T ", " x", "T   x")]
)
def test_a_passage_equals_its_text_and_gives_its_parts(title, text, whole):
    made = Passage(title, text)
    assert made == whole
    assert hash(made) == hash(whole)
    assert made.parts == (title, text)
    assert json.dumps(made) == json.dumps(whole)


@given(texts, texts, st.sampled_from([" ", "\n"]))
def test_copies_and_pickles_keep_the_parts(title, text, between):
    made = Passage(title, text, between)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(other) is Passage
        assert other == made
        assert other.parts == (title, text)


def test_strings_made_from_a_passage_are_plain_strings():
    made = Passage("T", "x")
    assert {type(made_string) for made_string in (made[:2], made.strip(" "), made + "", *made.parts)} == {str}


def test_a_passage_has_the_same_score_key_as_its_text():
    assert pair_key("model", "q", Passage("T", "x")) == pair_key("model", "q", "T x")


def test_tokenizers_accept_passages():
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"T": 0, "x": 1, "q": 2}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert tokenizer.encode_batch([("q", Passage("T", "x"))])[0].ids == [2, 0, 1]


def test_passages_of_a_corpus_have_title_and_text(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "title": "T", "text": "x"}\n{"_id": "b", "text": "y"}\n')
    found = open_texts(corpus)
    assert [found[docid].parts for docid in ("a", "b")] == [("T", "x"), ("", "y")]
