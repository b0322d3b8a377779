"""A tokenizer that gives numbers beyond the model's vocabulary is refused in one sentence."""

import json

import pytest
from tiny_models import SIZES, WORDS, save_modules, save_static, save_tokenizer

from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """A cache folder for graphs."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def give_a_large_number(folder, word):
    """Change the number of a word in the tokenizer of a model."""
    for path in folder.rglob("tokenizer.json"):
        content = json.loads(path.read_text())
        content["model"]["vocab"][word] = 9_999
        path.write_text(json.dumps(content))
    return folder


def save_classifier(folder):
    sizes = {**SIZES, "vocab_size": len(WORDS), "pad_token_id": 0, "num_labels": 1}
    transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def check_refusal(work, known, unknown):
    work(known)
    with pytest.raises(TourError, match=r"tokenizer or the maximum length of .* does not fit its weights") as refusal:
        work(unknown)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_rerankers(tmp_path, backend):
    folder = give_a_large_number(save_classifier(tmp_path / "model"), "h")
    reranker = load_reranker(str(folder), backend=backend, max_length=32)
    check_refusal(reranker.predict, [("a b", "c d")], [("a b", "c d"), ("a", "b c h")])


@pytest.mark.parametrize("load", [load_query_encoder, load_document_encoder])
def test_encoders(tmp_path, load):
    folder = give_a_large_number(save_modules(tmp_path / "model", "bert"), "h")
    encoder = load(str(folder), backend="torch")
    encode = encoder.encode_batch if load is load_query_encoder else lambda texts: encoder.encode(texts=texts)
    check_refusal(encode, ["a b", "c"], ["a b", "c h", "d"])


def test_static_embeddings(tmp_path):
    folder = give_a_large_number(save_static(tmp_path), "h")
    check_refusal(load_query_encoder(str(folder)).encode, "a b", "c h")
