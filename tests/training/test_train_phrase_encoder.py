"""The train command on a tiny base: it learns its passages by heart, resumes, and its encoder builds indexes."""

import json

import numpy as np
import pytest
import torch

from tour_pyserini import index, train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_index import open_phrase_index

pytestmark = pytest.mark.usefixtures("one_thread")


def flags(place, output, *more):
    data = [place / "questions.jsonl", place / "corpus.jsonl"]
    steps = ["--epochs", 40, "--batch-size", 2, "--learning-rate", 3e-3, "--validate-every", 20]
    steps += [] if "--query-side" in more else ["--max-length", 64]
    words = ["phrase-encoder", "--base", place / "base", "--output", output, "--data", *data, "--validation", *data]
    return [str(word) for word in [*words, *steps, "--threads", 1, *more]]


@pytest.fixture(scope="module")
def trained(place):
    train.main(flags(place, place / "encoder"))
    return place / "encoder"


def test_it_learns_its_data_by_heart(trained):
    record = json.loads((trained / "training.json").read_text())
    first, best = record["history"][0], max(record["history"], key=lambda entry: entry["EM"])
    assert first["EM"] < 0.3
    assert best["EM"] >= 0.8
    assert record["history"][-1]["loss"] < record["history"][1]["loss"] / 2
    assert load_phrase_encoder(trained).settings.filter_threshold > -50  # learnt, not left out


def test_the_filter_keeps_answers_and_drops_others(trained, place, tmp_path):
    for name, more in [("all", ["--filter-threshold=-inf"]), ("few", [])]:
        paths = ["--corpus", place / "corpus.jsonl", "--encoder", trained, "--index", tmp_path / name]
        index.main([str(word) for word in ["--phrases", *paths, "--threads", 1, *more]])
    everything, few = (open_phrase_index(tmp_path / name) for name in ("all", "few"))
    assert len(few.rows) < 0.8 * len(everything.rows)
    encoder = load_phrase_encoder(trained)
    for opened in (everything, few):
        searcher = PhraseSearcher(opened, encoder, open_texts(place / "corpus.jsonl"))
        assert searcher.search("who got the first prize")[0].text == "Wilhelm Röntgen"


def test_an_interrupted_training_gives_the_same_encoder(place, tmp_path, monkeypatch):
    from tour_pyserini.training.phrase_task import PhraseTask

    short = ["--max-steps", 6, "--save-every", 2, "--validate-every", 3]
    train.main(flags(place, tmp_path / "whole", *short))
    loss, calls = PhraseTask.loss, []

    def loss_until_the_fifth(self, batch):
        calls.append(len(batch.passages))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return loss(self, batch)

    monkeypatch.setattr(PhraseTask, "loss", loss_until_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        train.main(flags(place, tmp_path / "cut", *short))
    train.main(flags(place, tmp_path / "cut", *short))
    assert len(calls) == 5 + 2
    for name in ("model.safetensors", "training.json", "tour-phrase-encoder.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_query_side_fine_tuning_leaves_the_index_valid(place, trained, tmp_path):
    train.main(flags(place, tmp_path / "short", "--max-steps", 12))
    start = tmp_path / "short"
    paths = ["--corpus", place / "corpus.jsonl", "--encoder", start, "--index", tmp_path / "index"]
    index.main([str(word) for word in ["--phrases", *paths, "--threads", 1, "--filter-threshold=-inf"]])
    more = ["--query-side", tmp_path / "index", "--corpus", place / "corpus.jsonl", "--depth", 30, "--max-steps", 40]
    arguments = flags(place, tmp_path / "tuned", *more)
    arguments[arguments.index("--base") + 1] = str(start)
    train.main(arguments)
    history = json.loads((tmp_path / "tuned" / "training.json").read_text())["history"]
    assert history[-1]["loss"] < history[1]["loss"]
    assert max(entry["EM"] for entry in history[1:]) > history[0]["EM"]
    before, after = load_phrase_encoder(start), load_phrase_encoder(tmp_path / "tuned")
    assert after.fingerprint() == before.fingerprint()
    assert not np.array_equal(after.encode("which river"), before.encode("which river"))
    arguments[arguments.index("--base") + 1] = str(trained)
    arguments[arguments.index("--output") + 1] = str(tmp_path / "other")
    with pytest.raises(TourError, match="give the encoder that built it"):
        train.main(arguments)


def test_what_is_missing_is_named_before_work(place, tmp_path):
    with pytest.raises(TourError, match="--corpus is missing"):
        train.main(flags(place, tmp_path / "x", "--query-side", "nowhere"))
    with pytest.raises(TourError, match="is there already"):
        train.main(flags(place, place))
    for recall in (1.5, 0, "nan"):
        with pytest.raises(TourError, match="--filter-recall must lie above 0"):
            train.main(flags(place, tmp_path / "x", "--filter-recall", recall))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [["--corpus", "x"], ["--depth", 5]])
def test_flags_of_query_side_fine_tuning_are_for_it_alone(place, tmp_path, given):
    with pytest.raises(TourError, match=f"{given[0]} is for --query-side alone"):
        train.main(flags(place, tmp_path / "x", *given))


@pytest.mark.parametrize(
    "given",
    [
        ["--pooling", "cls"],
        ["--lower-case"],
        ["--max-length", 256],
        ["--questions-per-passage", 4],
        ["--batch-weight", 0],
        ["--filter-weight", 0],
        ["--filter-recall", 0.5],
        ["--train-embeddings"],
    ],
)
def test_query_side_fine_tuning_refuses_what_the_base_decides(place, tmp_path, given):
    more = ["--query-side", "nowhere", "--corpus", place / "corpus.jsonl", *given]
    with pytest.raises(TourError, match=f"{given[0]} is not for --query-side"):
        train.main(flags(place, tmp_path / "x", *more))


def test_the_defaults_are_what_the_record_says(place, tmp_path):
    words = [word for word in flags(place, tmp_path / "model", "--max-steps", 1) if word not in ("--max-length", "64")]
    train.main(words)
    told = json.loads((tmp_path / "model" / "training.json").read_text())["settings"]
    expected = {"max_length": 256, "questions_per_passage": 4, "batch_weight": 1.0, "filter_weight": 1.0}
    expected |= {"filter_recall": 0.98, "lower_case": False, "train_embeddings": False}
    assert {name: told[name] for name in expected} == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_there_is_named(place, tmp_path):
    with pytest.raises(TourError, match="the model cannot run on the device 'cuda:0'"):
        train.main(flags(place, tmp_path / "x", "--device", "cuda:0"))
    assert not list(tmp_path.iterdir())


def test_only_the_phrase_encoder_has_a_default_base(capsys):
    for what, offered in [("phrase-encoder", True), ("phrase-reranker", False), ("reading-comprehension", False)]:
        with pytest.raises(SystemExit):
            train.main([what, "--help"])
        assert ("`default`" in capsys.readouterr().out) is offered
