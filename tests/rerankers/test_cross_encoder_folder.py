"""Folders of sentence-transformers: what is not a re-ranker, and what is not complete."""

import json
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers")

from reranker_families import DECODER, FAMILIES, LENGTH, PAIRS, TEMPLATE, save_dense, save_model
from safetensors.torch import load_file, save_file

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import cross_encoder_folder, load_reranker


def save(folder: Path, family: str) -> Path:
    folder.mkdir(exist_ok=True)
    FAMILIES[family].save(folder)
    return folder


def test_a_bi_encoder_is_refused(tmp_path):
    folder = save(tmp_path / "it", "Dense")
    modules = json.loads((folder / "modules.json").read_text())[:2]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(TourError, match="describes a bi-encoder"):
        load_reranker(folder)
    save_dense(folder)
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    changed = settings | {"model_type": "SentenceTransformer"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(changed))
    with pytest.raises(TourError, match="describes a bi-encoder"):
        load_reranker(folder)


def test_a_checkpoint_without_its_head_is_refused(tmp_path):
    """sentence-transformers would set the head to random values."""
    folder = save(tmp_path, "qwen3 classifier, chat template")
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if name != "score.weight"}, folder / "model.safetensors")
    with pytest.raises(TourError, match=r"lacks 1 of the weights .* score\.weight"):
        load_reranker(folder)


def test_the_weights_are_checked_once(tmp_path, monkeypatch):
    folder = save(tmp_path, "LogitScore")
    load_reranker(folder)
    monkeypatch.setattr(cross_encoder_folder, "read_model", lambda *_, **__: pytest.fail("read again"))
    load_reranker(folder)


def test_three_outputs_are_refused(tmp_path):
    settings = {"chat_template": TEMPLATE}
    save_model(
        tmp_path, "qwen3", "SequenceClassification", layout="plain", token_settings=settings, num_labels=3, **DECODER
    )
    with pytest.raises(TourError, match="3 outputs per pair"):
        load_reranker(tmp_path)


def test_a_template_that_leaves_no_room_is_refused(tmp_path):
    folder = save(tmp_path, "LogitScore")
    with pytest.raises(TourError, match="which leaves no room for a pair in 40"):
        load_reranker(folder, max_length=40)


@pytest.mark.parametrize("wrong", [{"backend": "onnx"}, {"precision": "int8"}])
def test_other_back_ends_are_refused(tmp_path, wrong):
    for family in ("LogitScore", "qwen3 classifier, chat template"):
        with pytest.raises(TourError, match="only by torch"):
            load_reranker(save(tmp_path / family, family), **wrong)


def test_the_length_that_the_folder_declares_is_kept(tmp_path):
    folder = save(tmp_path, "default prompt")
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings | {"max_seq_length": 30}))
    reranker = load_reranker(folder, max_length=LENGTH)
    assert reranker.description.max_length == 30
    assert reranker.description.prompt == "search for: "
    assert reranker.predict(PAIRS).tolist() == load_reranker(folder, max_length=30).predict(PAIRS).tolist()


def test_a_default_prompt_that_does_not_exist_is_refused(tmp_path):
    folder = save(tmp_path, "default prompt")
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"default_prompt_name": "other"}))
    with pytest.raises(TourError, match="no prompt named 'other'"):
        load_reranker(folder)


def test_progress_is_reported(tmp_path):
    reranker = load_reranker(save(tmp_path, "LogitScore"), max_length=LENGTH)
    counts: list[int] = []
    reranker.on_progress = counts.append
    reranker.predict(PAIRS[:3] * 100)
    assert sum(counts) == 300
    assert len(counts) > 1
