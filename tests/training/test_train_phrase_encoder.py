"""Training of phrase encoders, on a tiny base: they learn their data, resume, and build indexes."""

import json

import numpy as np
import pytest
import torch
from tiny_phrases import build_phrases

from tour_pyserini import train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
from tour_pyserini.phrases.phrase_index import open_phrase_index
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.training.encoder_tasks import PhraseTask, filter_loss, side_loss

pytestmark = pytest.mark.usefixtures("one_thread")


def run(folder, output, *more, what="phrase-encoder", base="base", data="{0}/questions.jsonl {0}/corpus.jsonl"):
    data = data.format(folder)
    words = f"{what} --base {folder / base} --output {output} --data {data} --validation {data}"
    words += " --epochs 40 --batch-size 2 --threads 1 --learning-rate 3e-3 --validate-every 20"
    train.main([*words.split(), *(["--max-length", "64"] if what == "phrase-encoder" else []), *map(str, more)])


@pytest.fixture(scope="module")
def trained(folder):
    run(folder, folder / "encoder")
    return folder / "encoder"


def test_a_phrase_encoder_learns_answers_and_which_tokens_to_keep(trained, folder, tmp_path):
    history = json.loads((trained / "training.json").read_text())["history"]
    assert history[0]["EM"] < 0.3 and max(entry["EM"] for entry in history) >= 0.8
    assert history[-1]["loss"] < history[1]["loss"] / 2
    builds = {"all": ["--filter-threshold=-inf"], "few": []}
    everything, few = (
        open_phrase_index(build_phrases(trained, folder / "corpus.jsonl", tmp_path / name, *more))
        for name, more in builds.items()
    )
    assert len(few.rows) < 0.8 * len(everything.rows)
    for opened in (everything, few):
        searcher = PhraseSearcher(opened, load_phrase_encoder(trained), open_texts(folder / "corpus.jsonl"))
        assert searcher.search("who got the first prize")[0].text == "Wilhelm Röntgen"


def test_an_interrupted_command_gives_the_same_encoder_as_python(folder, tmp_path, interrupt):
    data = [[folder / "questions.jsonl", folder / "corpus.jsonl"]]
    request = train.PhraseEncoderRequest(
        **{"base": str(folder / "base"), "output": tmp_path / "whole", "data": data, "validation": data},
        **{"max_length": 64, "epochs": 40, "batch_size": 2, "learning_rate": 3e-3, "threads": 1},
        **{"max_steps": 6, "save_every": 2, "validate_every": 3},
    )
    record = train.train(request)
    expected = {"what": "PhraseEncoderRequest", "max_length": 64, "seed": 42}
    assert record["settings"].items() >= expected.items() and "output" not in record["settings"]
    calls = interrupt(PhraseTask, "loss", 5)
    short = ["--max-steps", 6, "--save-every", 2, "--validate-every", 3]
    with pytest.raises(KeyboardInterrupt):
        run(folder, tmp_path / "cut", *short)
    run(folder, tmp_path / "cut", *short)
    assert len(calls) == 5 + 2
    for name in ("model.safetensors", "training.json", "tour-phrase-encoder.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_query_side_fine_tuning_leaves_the_index_valid(folder, trained, tmp_path):
    run(folder, folder / "short", "--max-steps", 12)
    build_phrases(folder / "short", folder / "corpus.jsonl", tmp_path / "index", "--filter-threshold=-inf")
    more = ["--index", tmp_path / "index", "--corpus", folder / "corpus.jsonl", "--depth", 30, "--max-steps", 40]
    how = {"what": "query-encoder", "data": "{0}/questions.jsonl"}
    run(folder, tmp_path / "tuned", *more, base="short", **how)
    history = json.loads((tmp_path / "tuned" / "training.json").read_text())["history"]
    assert history[-1]["loss"] < history[1]["loss"]
    assert max(entry["EM"] for entry in history[1:]) > history[0]["EM"]
    before, after = load_phrase_encoder(folder / "short"), load_phrase_encoder(tmp_path / "tuned")
    assert after.fingerprint() == before.fingerprint()
    assert not np.array_equal(after.encode("which river"), before.encode("which river"))
    with pytest.raises(TourError, match="encoder that built it"):
        run(folder, tmp_path / "other", *more, base="encoder", **how)


@pytest.mark.parametrize(("max_length", "questions"), [(64, 7), (24, 4)])  # edges of windows cut three
def test_training_passages_know_the_tokens_of_their_answers(folder, max_length, questions):
    data = [[folder / "questions.jsonl", folder / "corpus.jsonl"]]
    where = {"base": "b", "output": "o", "data": data, "validation": data}
    task = PhraseTask(train.PhraseEncoderRequest(**where, max_length=max_length), folder / "base")
    assert sum(len(passage.questions) for passage in task.passages) == questions
    for passage in task.passages:
        words = task.encoder.tokenizer.convert_ids_to_tokens(passage.inputs["input_ids"])
        for _, answers in passage.questions:
            starts, ends = passage.gold(answers)
            first = {answer.lower()[0] for answer in answers}
            assert all(words[start].lstrip("#")[0] in first for start in starts)
            assert len(starts) >= 1 <= len(ends)


def test_side_loss_by_hand():
    """Two passages of three tokens in one dimension, and two questions."""
    tokens = torch.tensor([[[0.5], [1.0], [2.0]], [[-1.0], [3.0], [0.2]]])
    questions = torch.tensor([[1.0], [-2.0]])
    able = torch.tensor([[True, True, True], [True, True, False]])
    gold, known = torch.zeros(2, 2, 3, dtype=torch.bool), torch.zeros(2, 2, 3, dtype=torch.bool)
    gold[0, 0, 1] = known[0, 0, 1] = known[0, 1, 1] = True  # the first question's answer is in the other passage too
    gold[1, 1, 0] = known[1, 1, 0] = True
    inside, across = side_loss(questions, tokens, own=torch.tensor([0, 1]), gold=gold, able=able, known=known)
    e = np.exp
    first, second = -np.log(e(1.0) / (e(0.5) + e(1.0) + e(2.0))), -np.log(e(2.0) / (e(2.0) + e(-6.0)))
    assert float(inside) == pytest.approx((first + second) / 2)
    first = -np.log(e(1.0) / (e(0.5) + e(1.0) + e(2.0) + e(-1.0)))
    second = -np.log(e(2.0) / (e(2.0) + e(-6.0) + e(-1.0) + e(-2.0) + e(-4.0)))
    assert float(across) == pytest.approx((first + second) / 2)


def test_the_filter_loss_weighs_right_tokens_more():
    able, gold = torch.tensor([[True, True, True, False]]), torch.tensor([[False, True, False, False]])
    assert float(filter_loss(torch.tensor([[0.0, 0.0, 0.0, 99.0]]), gold, able)) == pytest.approx(np.log(2) * 5 / 3)
    assert float(filter_loss(torch.tensor([[-20.0, 20.0, -20.0, 99.0]]), gold, able)) == pytest.approx(0, abs=1e-6)
