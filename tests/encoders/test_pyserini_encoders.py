"""Pyserini's own encoder classes: which are chosen, their vectors, and their code."""

import json

import pytest
from tiny_models import save_transformer, with_code

from tour_pyserini.encoders import pyserini_encoders
from tour_pyserini.encoders.loading import encoder_fingerprint, load_document_encoder, load_query_encoder
from tour_pyserini.encoders.pyserini_encoders import pyserini_class
from tour_pyserini.errors import TourError


def test_a_name_on_the_hub_without_modules_is_left_to_pyserini(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: object())  # known to be missing
    for name, expected in {"some/ance-model": "ance", "facebook/mcontriever": "contriever", "x/dpr2": "dpr"}.items():
        assert pyserini_class(name, None) == expected
        assert encoder_fingerprint(name) == name
    assert pyserini_class("some/finance-model", None) is None
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "modules.json")
    assert pyserini_class("some/ance-model", None) is None
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)  # nobody asked yet

    def offline(*_, **__):
        raise OSError("no connection")

    for ask, modular in ((lambda *_: True, True), (lambda *_: False, False), (offline, False)):
        monkeypatch.setattr(huggingface_hub, "file_exists", ask)
        assert (pyserini_class("some/ance-model", None) is None) is modular


@pytest.fixture(scope="module")
def dpr(tmp_path_factory):
    """A folder with a tiny question encoder of DPR, and the model."""
    import torch
    from transformers import DPRConfig, DPRQuestionEncoder

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("finance") / "question"  # a path says nothing
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "moon", "sun"]
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = DPRQuestionEncoder(DPRConfig(vocab_size=len(words), **sizes)).eval()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": "DPRQuestionEncoderTokenizer", "do_lower_case": True, "model_max_length": 128}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder, model


@pytest.mark.parametrize("encoder_class", [None, "dpr"])
def test_the_architecture_of_a_folder_says_its_class(dpr, tmp_path, encoder_class, caplog):
    import torch

    folder, model = dpr
    with torch.no_grad():
        expected = model(torch.tensor([[2, 5, 6, 3]])).pooler_output[0].numpy()
    cached = load_query_encoder(folder, cache=tmp_path / "q.sqlite", encoder_class=encoder_class)
    assert not caplog.text
    prefixed = load_query_encoder(folder, encoder_class=encoder_class, query_prefix="query:")
    assert "ignores the prefix" in caplog.text
    for encoder in (prefixed, cached):
        assert encoder.encode("moon sun") == pytest.approx(expected, abs=1e-5)
        assert not encoder.model.training and not next(encoder.model.parameters()).requires_grad


def test_pyserinis_classes_do_not_ask_on_the_terminal(tmp_path, monkeypatch):
    """A model on the hub whose type only its own code knows; its name is a path that is no folder at first."""
    mark = tmp_path / "mark"
    folder = with_code(save_transformer(tmp_path / "bare", "bert"), mark)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "payload"}))
    monkeypatch.setattr(pyserini_encoders, "_name", lambda spec, options: str(folder))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    for load in (load_query_encoder, load_document_encoder):
        with pytest.raises(TourError, match=r"cannot load the encoder .*code"):
            load("some/model", encoder_class="contriever")
    assert not mark.exists()
