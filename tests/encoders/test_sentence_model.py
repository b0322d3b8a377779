"""What torch runs: batches and threads that change no vector, checkpoints that are not whole, small devices."""

import numpy as np
import pytest
from tiny_models import change_json, save_modules, save_transformer

from tour_pyserini.encoders.encoder import fitting_length
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
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
