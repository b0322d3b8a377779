"""Training of phrase encoders, on a tiny base: they learn their data, resume, and build indexes."""

import json

import numpy as np
import pytest
import torch

from tour_pyserini import index, train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.encoder import load_phrase_encoder
from tour_pyserini.phrases.index import open_phrase_index
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.train import PhraseEncoderRequest, train
from tour_pyserini.training.request import TrainRequest

pytestmark = pytest.mark.usefixtures("one_thread")


def flags(folder, output, *more):
    data = [folder / "questions.jsonl", folder / "corpus.jsonl"]
    steps = ["--epochs", 40, "--batch-size", 2, "--learning-rate", 3e-3, "--validate-every", 20]
    steps += [] if "--query-side" in more else ["--max-length", 64]
    words = [
        "phrase-encoder",
        "--base",
        folder / "base",
        "--output",
        output,
        "--data",
        *data,
        "--validation",
        *data,
    ]
    return [str(word) for word in [*words, *steps, "--threads", 1, *more]]


@pytest.fixture(scope="module")
def trained(folder):
    train.main(flags(folder, folder / "encoder"))
    return folder / "encoder"


def test_a_phrase_encoder_learns_its_training_data(trained):
    record = json.loads((trained / "training.json").read_text())
    first, best = record["history"][0], max(record["history"], key=lambda entry: entry["EM"])
    assert first["EM"] < 0.3
    assert best["EM"] >= 0.8
    assert record["history"][-1]["loss"] < record["history"][1]["loss"] / 2
    assert load_phrase_encoder(trained).settings.filter_threshold > -50  # learnt, not left out


def test_the_filter_keeps_answers_and_drops_other_tokens(trained, folder, tmp_path):
    for name, more in [("all", ["--filter-threshold=-inf"]), ("few", [])]:
        paths = ["--corpus", folder / "corpus.jsonl", "--encoder", trained, "--index", tmp_path / name]
        index.main([str(word) for word in ["--phrases", *paths, "--threads", 1, *more]])
    everything, few = (open_phrase_index(tmp_path / name) for name in ("all", "few"))
    assert len(few.rows) < 0.8 * len(everything.rows)
    encoder = load_phrase_encoder(trained)
    for opened in (everything, few):
        searcher = PhraseSearcher(opened, encoder, open_texts(folder / "corpus.jsonl"))
        assert searcher.search("who got the first prize")[0].text == "Wilhelm Röntgen"


def test_a_job_called_from_python_does_what_the_command_does(folder, tmp_path):
    train.main(flags(folder, tmp_path / "command", "--max-steps", 2, "--validate-every", 1))
    data = [[folder / "questions.jsonl", folder / "corpus.jsonl"]]
    request = PhraseEncoderRequest(
        base=str(folder / "base"),
        output=tmp_path / "python",
        data=data,
        validation=data,
        max_length=64,
        settings=TrainRequest(epochs=40, max_steps=2, batch_size=2, learning_rate=3e-3, validate_every=1),
    )
    lines = []
    record = train(request, report=lines.append)
    assert [line.split(":")[0] for line in lines] == ["step 1", "step 2"]
    assert record == json.loads((tmp_path / "python" / "training.json").read_text())
    for name in ("model.safetensors", "training.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()


def test_an_interrupted_training_gives_the_same_encoder(folder, tmp_path, monkeypatch):
    from tour_pyserini.training.phrase_encoder import PhraseTask

    short = ["--max-steps", 6, "--save-every", 2, "--validate-every", 3]
    train.main(flags(folder, tmp_path / "whole", *short))
    loss, calls = PhraseTask.loss, []

    def loss_until_the_fifth(self, batch):
        calls.append(len(batch.passages))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return loss(self, batch)

    monkeypatch.setattr(PhraseTask, "loss", loss_until_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        train.main(flags(folder, tmp_path / "cut", *short))
    train.main(flags(folder, tmp_path / "cut", *short))
    assert len(calls) == 5 + 2
    for name in ("model.safetensors", "training.json", "tour-phrase-encoder.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_query_side_fine_tuning_leaves_the_index_valid(folder, trained, tmp_path):
    train.main(flags(folder, tmp_path / "short", "--max-steps", 12))
    start = tmp_path / "short"
    paths = ["--corpus", folder / "corpus.jsonl", "--encoder", start, "--index", tmp_path / "index"]
    index.main([str(word) for word in ["--phrases", *paths, "--threads", 1, "--filter-threshold=-inf"]])
    more = [
        "--query-side",
        tmp_path / "index",
        "--corpus",
        folder / "corpus.jsonl",
        "--depth",
        30,
        "--max-steps",
        40,
    ]
    arguments = flags(folder, tmp_path / "tuned", *more)
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


def test_wrong_flags_are_refused_before_work(folder, tmp_path):
    with pytest.raises(TourError, match="--corpus is missing"):
        train.main(flags(folder, tmp_path / "x", "--query-side", "nowhere"))
    with pytest.raises(TourError, match="already exists"):
        train.main(flags(folder, folder))
    for recall in (1.5, 0, "nan"):
        with pytest.raises(TourError, match="filter_recall must be above 0"):
            train.main(flags(folder, tmp_path / "x", "--filter-recall", recall))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [["--corpus", "x"], ["--depth", 5]])
def test_flags_of_query_side_fine_tuning_need_it(folder, tmp_path, given):
    with pytest.raises(TourError, match=f"{given[0]} can be used only with --query-side"):
        train.main(flags(folder, tmp_path / "x", *given))


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
def test_query_side_fine_tuning_refuses_flags_of_the_phrase_encoder(folder, tmp_path, given):
    more = ["--query-side", "nowhere", "--corpus", folder / "corpus.jsonl", *given]
    with pytest.raises(TourError, match=f"{given[0]} cannot be used with --query-side"):
        train.main(flags(folder, tmp_path / "x", *more))


def test_the_record_has_the_defaults(folder, tmp_path):
    words = [word for word in flags(folder, tmp_path / "model", "--max-steps", 1) if word not in ("--max-length", "64")]
    train.main(words)
    recorded = json.loads((tmp_path / "model" / "training.json").read_text())["settings"]
    expected = {"max_length": 256, "questions_per_passage": 4, "batch_weight": 1.0, "filter_weight": 1.0}
    expected |= {"filter_recall": 0.98, "lower_case": False, "train_embeddings": False}
    assert {name: recorded[name] for name in expected} == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_missing_device_is_refused(folder, tmp_path):
    with pytest.raises(TourError, match="the model cannot run on the device 'cuda:0'"):
        train.main(flags(folder, tmp_path / "x", "--device", "cuda:0"))
    assert not list(tmp_path.iterdir())


def test_only_the_phrase_encoder_has_a_default_base(capsys):
    for what, offered in [("phrase-encoder", True), ("phrase-reranker", False), ("reading-comprehension", False)]:
        with pytest.raises(SystemExit):
            train.main([what, "--help"])
        assert ("`default`" in capsys.readouterr().out) is offered
