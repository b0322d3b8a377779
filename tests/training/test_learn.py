"""Learning an adapter from the labels in the score cache, with a tiny encoder."""

import json

import pytest
from learnable import HiddenReranker, buy_labels, learnable_fields, write_learnable
from tiny_phrases import save_reranker
from toy_collection import HashReranker

from tour_pyserini.core.config import TourConfig
from tour_pyserini.encoders.query_adapter import QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.learn import LearnRequest, NoGain, learn, main
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learn")
    write_learnable(folder, folder / "encoder")
    return folder


def test_a_hidden_correction_is_learnt_without_computing_labels(place, tmp_path):
    reranker, output = HiddenReranker(place / "encoder"), tmp_path / "a.adapter"
    buy_labels(place, reranker, tmp_path / "labelled.trec")
    before = reranker.asked
    topics = tmp_path / "topics.tsv"  # a topic without a text has no labels, and stops nothing
    topics.write_text((place / "train.tsv").read_text() + "blank\t \n")
    fields = learnable_fields(place, reranker) | {"topics": str(topics)}
    done = learn(LearnRequest(**fields, output=str(output)))
    assert reranker.asked == before
    assert (done.queries, done.labels) == (200, 2000)
    assert done.choice.gain > 0.02 and done.choice.p < 0.05
    about = QueryAdapter.read(output).about
    assert about["reranker"] == "hidden" and about["topics"]["labels"] == 2000
    assert about["index"]["passages"] == 200 and about["chosen"]["gain"] == done.choice.gain
    again = learn(LearnRequest(**fields, output=str(tmp_path / "b.adapter")))
    assert again.choice == done.choice and (tmp_path / "b.adapter").read_bytes() == output.read_bytes()

    def mean_label(adapter):
        """Of the first passage of a dense search, for queries that were not learnt from."""
        fields, run = learnable_fields(place, reranker, "test"), tmp_path / "dense.trec"
        search(SearchRequest(**fields, config=TourConfig("dense"), hits=1, adapter=adapter, output=str(run)))
        texts = dict(line.split("\t") for line in (place / "test.tsv").read_text().splitlines())
        entries = map(json.loads, (place / "corpus.jsonl").read_text().splitlines())
        corpus = {entry["_id"]: entry["text"] for entry in entries}
        hits = [line.split() for line in run.read_text().splitlines()]
        return reranker.predict([(texts[hit[0]], corpus[hit[2]]) for hit in hits]).mean()

    assert mean_label(str(output)) > mean_label(None)


def test_too_few_labels_and_labels_of_noise_are_refused(place, tmp_path):
    reranker, output = HashReranker(), tmp_path / "a.adapter"
    request = LearnRequest(**learnable_fields(place, reranker), output=str(output))
    with pytest.raises(TourError, match="0 of the 200 queries"):
        learn(request)
    buy_labels(place, reranker, tmp_path / "all.trec")
    output.write_text("earlier")
    with pytest.raises(NoGain, match="2000 labels of 200 queries") as refused:
        learn(request)
    assert refused.value.labels == 2000 and output.read_text() == "earlier"


def test_the_command_says_what_it_learnt(place, tmp_path, capsys):
    save_reranker(place / "reranker")
    named = load_reranker(str(place / "reranker"), backend="torch").fingerprint
    buy_labels(place, HiddenReranker(place / "encoder", fingerprint=named), tmp_path / "labelled.trec")
    words = f"--topics {place}/train.tsv --index {place}/index --corpus {place}/corpus.jsonl --backend torch"
    main([*words.split(), "--reranker", str(place / "reranker"), "--output", str(tmp_path / "a.adapter")])
    assert "2000 labels of 200 queries" in capsys.readouterr().err
    assert QueryAdapter.read(tmp_path / "a.adapter").about["reranker"] == named
