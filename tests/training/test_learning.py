"""Learning from kept labels: through the pipeline and the real commands, with a tiny encoder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from learnable import HiddenReranker, buy_labels, learnable_fields, write_learnable
from tiny_phrases import save_reranker
from toy_collection import HashReranker

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.records import record_path
from tour_pyserini.encoders.query_adapter import read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.learn import LearnRequest, NoGain, learn
from tour_pyserini.pipeline import SearchRequest, search
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.training.adapter import LabelledQueries, order_quality, reciprocal_ranks


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learn")
    write_learnable(folder, folder / "encoder")
    return folder


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def bought(place, reranker, tmp_path, topics="train"):
    buy_labels(place, reranker, tmp_path / "bought.trec", topics)


def test_a_hidden_correction_is_learnt_without_buying_labels(place, tmp_path):
    reranker = HiddenReranker(place / "encoder")
    bought(place, reranker, tmp_path)
    before = reranker.asked
    output = tmp_path / "a.adapter"
    done = learn(LearnRequest(**learnable_fields(place, reranker), output=str(output)))
    assert reranker.asked == before
    assert (done.queries, done.labels) == (200, 2000)
    assert done.choice.gain > 0.02 and done.choice.p < 0.05
    adapter = read_adapter(output)
    assert adapter.about["reranker"] == "hidden" and adapter.about["topics"]["labels"] == 2000
    assert adapter.about["index"]["passages"] == 200 and adapter.about["chosen"]["gain"] == done.choice.gain
    again = learn(LearnRequest(**learnable_fields(place, reranker), output=str(tmp_path / "b.adapter")))
    assert again.choice == done.choice and (tmp_path / "b.adapter").read_bytes() == output.read_bytes()

    # Dense search of other queries puts the passages that the re-ranker likes first.
    def best(adapter):
        run = search(
            SearchRequest(
                **learnable_fields(place, reranker, "test"),
                config=TourConfig("dense"),
                hits=1,
                adapter=adapter,
                output=str(tmp_path / f"dense-{adapter is None}.trec"),
            )
        ).output
        texts = dict(line.split("\t") for line in (place / "test.tsv").read_text().splitlines())
        entries = map(json.loads, (place / "corpus.jsonl").read_text().splitlines())
        corpus = {entry["_id"]: entry["text"] for entry in entries}
        pairs = [(texts[line.split()[0]], corpus[line.split()[2]]) for line in run.read_text().splitlines()]
        return run, reranker.predict(pairs).mean()

    (_, plain), (run, adapted) = best(None), best(str(output))
    assert adapted > plain
    assert json.loads(record_path(run).read_text())["files"]["adapter"]["sha256"]


def test_labels_of_noise_are_refused_with_the_figures(place, tmp_path):
    reranker = HashReranker()
    bought(place, reranker, tmp_path)
    with pytest.raises(NoGain, match=r"reciprocal rank .* changes it by .* 2000 labels of 200 queries") as refused:
        learn(LearnRequest(**learnable_fields(place, reranker), output=str(tmp_path / "a.adapter")))
    assert refused.value.labels == 2000 and not (tmp_path / "a.adapter").exists()


def test_too_few_labels_are_refused(place, tmp_path):
    reranker = HashReranker()
    with pytest.raises(TourError, match=r"0 of the 200 queries .*train\.tsv have two or more kept labels"):
        learn(LearnRequest(**learnable_fields(place, reranker), output=str(tmp_path / "a.adapter")))
    bought(place, reranker, tmp_path, "few")
    with pytest.raises(TourError, match="20 of the 200 queries"):
        learn(LearnRequest(**learnable_fields(place, reranker), output=str(tmp_path / "a.adapter")))


def command(name, *words):
    """Run a real command; returns its exit code and the last line that it wrote."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    line = [sys.executable, "-m", f"tour_pyserini.{name}", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=300)
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_real_commands_learn_search_and_refuse(place, tmp_path):
    save_reranker(place / "reranker")
    real = load_reranker(str(place / "reranker"), backend="torch").fingerprint
    named = ["--index", place / "index", "--corpus", place / "corpus.jsonl"]
    labelled = [*named, "--reranker", place / "reranker", "--backend", "torch"]
    learning = [*labelled, "--topics", place / "train.tsv"]
    adapter = tmp_path / "a.adapter"

    # Labels of noise under the name of the model: nothing is written, and an earlier file stays.
    noise = HashReranker()
    noise.fingerprint = real
    buy_labels(place, noise, tmp_path / "noise.trec", cache=str(tmp_path / "noise.sqlite"))
    adapter.write_text("earlier")
    code, said = command("learn", *learning, "--cache", tmp_path / "noise.sqlite", "--output", adapter)
    assert code == 2 and said.startswith("error: nothing is written, as held-out queries do not gain")
    assert adapter.read_text() == "earlier"

    # Labels that a correction explains.
    scores = tmp_path / "scores.sqlite"
    buy_labels(place, HiddenReranker(place / "encoder", fingerprint=real), tmp_path / "b.trec", cache=str(scores))
    code, said = command("learn", *learning, "--cache", scores, "--output", adapter)
    assert code == 0 and said.startswith(f"{adapter}: rank ") and "2000 labels of 200 queries" in said
    assert read_adapter(adapter).about["reranker"] == real

    # The command's run is that of the pipeline, and the adapter changes it.
    runs = {}
    for name, given in (("plain", None), ("adapted", str(adapter))):
        output, fields = tmp_path / f"{name}.trec", learnable_fields(place, "default", "test")
        search(SearchRequest(**fields, config=TourConfig("dense"), hits=20, adapter=given, output=str(output)))
        runs[name] = output.read_bytes()
    searching = [*named, "--topics", place / "test.tsv", "--method", "dense", "--hits", 20, "--adapter", adapter]
    code, said = command("search", *searching, "--output", tmp_path / "command.trec")
    assert code == 0, said
    assert (tmp_path / "command.trec").read_bytes() == runs["adapted"] != runs["plain"]


def small_data(labels):
    passages = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    return LabelledQueries(
        np.array([[1.0, 0.0]], dtype=np.float32),
        *(passages, np.array([4, 5, 6]), np.array([[0, 1, 2]]), np.array([labels])),
        *(np.array([], dtype=int), passages[:0]),
    )


def test_the_order_of_labels_by_hand():
    # Similarities 1, 0, 0.6: passages 0, 2, 1, with the gains 0, 0.25, 0.75.
    data, targets = small_data([0.0, 2.0, 1.0]), np.array([[0.0, 0.75, 0.25]])
    ideal = 0.75 + 0.25 / np.log2(3)
    assert order_quality(data, targets, data.queries) == pytest.approx([(0.25 / np.log2(3) + 0.75 / 2) / ideal])
    assert order_quality(data, targets, np.array([[0.0, 1.0]])) == pytest.approx([1.0])


def test_reciprocal_ranks_by_hand():
    class Store:
        def search(self, vectors, k):
            return type("Hits", (), {"ids": np.array([[9, 6, 5, -1]])})

    assert reciprocal_ranks(small_data([0.0, 2.0, 1.0]), np.zeros((1, 2)), Store()) == pytest.approx([1 / 3])
    assert reciprocal_ranks(small_data([3.0, 2.0, 1.0]), np.zeros((1, 2)), Store()) == pytest.approx([0.0])


def test_search_refuses_what_is_no_adapter_and_encoded_queries(place, tmp_path):
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(TourError, match="bad is not an adapter"):
        search(
            SearchRequest(
                **learnable_fields(place, HashReranker()), adapter=str(tmp_path / "bad"), output=str(tmp_path / "r")
            )
        )
    with pytest.raises(TourError, match="--adapter corrects vectors of an encoder"):
        SearchRequest(**learnable_fields(place, "default"), adapter="a", encoded_queries="b")
