import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.documents import Passage, passage
from tour_pyserini.data.texts import open_texts
from tour_pyserini.rerankers.score_cache import pair_key

texts = st.text(max_size=12)


@pytest.mark.parametrize(
    ("title", "text", "whole"), [("T", "x", "T x"), ("", "x", "x"), ("T", "", "T"), ("", "", ""), ("T ", " x", "T   x")]
)
def test_a_passage_reads_as_before_and_knows_its_parts(title, text, whole):
    made = passage(title, text)
    assert made == whole
    assert hash(made) == hash(whole)
    assert made.parts == (title, text)
    assert json.dumps(made) == json.dumps(whole)


@given(texts, texts, st.sampled_from([" ", "\n"]))
def test_parts_survive_copies_and_processes(title, text, between):
    made = Passage(title, text, between)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(other) is Passage
        assert other == made
        assert other.parts == (title, text)


def test_what_is_made_of_a_passage_is_plain_text():
    made = passage("T", "x")
    assert {type(one) for one in (made[:2], made.strip(" "), made + "", *made.parts)} == {str}


def test_scores_are_found_again_under_the_same_key():
    assert pair_key("model", "q", passage("T", "x")) == pair_key("model", "q", "T x")


def test_tokenizers_take_passages():
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"T": 0, "x": 1, "q": 2}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert tokenizer.encode_batch([("q", passage("T", "x"))])[0].ids == [2, 0, 1]


def test_a_corpus_gives_titles_apart(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "title": "T", "text": "x"}\n{"_id": "b", "text": "y"}\n')
    found = open_texts(corpus)
    assert [found[docid].parts for docid in ("a", "b")] == [("T", "x"), ("", "y")]
