"""The same cross-encoder gives the same scores with sentence-transformers, transformers and ONNX."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("sentence_transformers")

from reranker_families import DECODER, FAMILIES, LENGTH, PAIRS, TEMPLATE, save_model
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder

from tour_pyserini.data.demo_collection import CORPUS, QRELS, QUERIES
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.support import onnx_graphs

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LIBRARY = [family for family, row in FAMILIES.items() if row.engine == "sentence-transformers"]


def read(folder, **options):
    return CrossEncoder(str(folder), device="cpu", **options)


@pytest.fixture
def with_onnx(monkeypatch):
    """A processor on which ONNX Runtime is faster."""
    pytest.importorskip("onnx")
    monkeypatch.setattr(onnx_graphs, "cpu_flags", lambda: ("avx2",))


@pytest.mark.parametrize("labels", [1, 2])
def test_an_object_runs_as_a_graph_with_the_logits_of_the_library(bert_folder, with_onnx, pairs, labels, tmp_path):
    """Raw logits, whatever its activation; a pair that is too long is cut as the library cuts it."""
    folder, cut = bert_folder(labels=labels), {"max_length": 100}
    model = read(folder, **cut)
    reranker = load_reranker(model)
    assert reranker.engine == "onnx"
    logits = model.predict(pairs, activation_fn=torch.nn.Identity())
    expected = logits if labels == 1 else logits[:, 1] - logits[:, 0]
    scores = reranker.predict(pairs)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(scores[:3], load_reranker(folder, **cut).predict(pairs[:3]), atol=1e-5)
    assert model.predict(pairs).tolist() == read(folder, **cut).predict(pairs).tolist()  # the object is not changed
    assert CachedReranker(reranker, tmp_path / "scores").predict(pairs[:2]).shape == (2,)


def test_an_object_that_cannot_run_as_a_graph_is_run_by_the_library(bert_folder, monkeypatch, pairs):
    monkeypatch.setattr(onnx_graphs, "cpu_flags", lambda: ())
    model = read(bert_folder())
    reranker = load_reranker(model)
    assert reranker.engine == "sentence-transformers"
    np.testing.assert_allclose(1 / (1 + np.exp(-reranker.predict(pairs))), model.predict(pairs), atol=1e-6)


def test_the_fingerprint_of_an_object_depends_on_weights_length_and_engine(bert_folder, with_onnx, monkeypatch):
    folder = bert_folder()
    trained = read(folder)
    trained.model.classifier.bias.data += 1
    objects = [read(folder), read(folder), read(folder, max_length=20), read(bert_folder("other", seed=1)), trained]
    prints = [load_reranker(model).fingerprint for model in objects]
    assert prints[0] == prints[1] and len(set(prints)) == 4
    objects[0].predict([("who", "cat")])  # which changes the state of its tokenizer
    assert load_reranker(objects[0]).fingerprint == prints[0]
    monkeypatch.setattr(onnx_graphs, "cpu_flags", lambda: ())
    assert load_reranker(objects[0]).fingerprint not in prints


@pytest.mark.parametrize("family", [*LIBRARY, "default prompt"])
def test_an_object_has_the_scores_of_its_folder(family, saved):
    folder = saved(family)
    model = read(folder, max_length=LENGTH)
    reranker = load_reranker(model)
    np.testing.assert_allclose(reranker.predict(PAIRS), FAMILIES[family].scores(folder, LENGTH), **CLOSE)
    first = reranker.fingerprint
    model.tokenizer.chat_template = "{{ messages[0].content }} {{ messages[1].content }}"
    assert load_reranker(model).fingerprint != first


def drop_dense(folder):
    modules = json.loads((folder / "modules.json").read_text())[:2]
    (folder / "modules.json").write_text(json.dumps(modules))


def drop_head(folder):
    """sentence-transformers would set the head to random values."""
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if name != "score.weight"}, folder / "model.safetensors")


def make_bi_encoder(folder):
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "SentenceTransformer"}))


def save_three_outputs(folder):
    settings = {"layout": "plain", "token_settings": {"chat_template": TEMPLATE}, "num_labels": 3}
    save_model(folder, "qwen3", "SequenceClassification", **settings, **DECODER)


CHAT = "qwen3 classifier, chat template"


@pytest.mark.parametrize(
    ("family", "change", "options", "word"),
    [
        ("Dense", drop_dense, {}, "bi-encoder"),
        ("Dense", make_bi_encoder, {}, "bi-encoder"),
        (CHAT, drop_head, {}, r"score\.weight"),
        (CHAT, save_three_outputs, {}, "3 outputs"),
        ("LogitScore", None, {"max_length": 40}, "room"),
        ("LogitScore", None, {"backend": "onnx"}, "torch"),
        (CHAT, None, {"precision": "int8"}, "torch"),
    ],
)
def test_what_is_no_complete_reranker_is_refused(copied, family, change, options, word):
    folder = copied(family)
    if change:
        change(folder)
    with pytest.raises(TourError, match=word):
        load_reranker(folder, **options)


@pytest.mark.slow
def test_the_logits_of_all_three_libraries_agree_on_a_real_model(shared):
    """Questions of the embedded collection, each with the passage that answers it and its neighbours."""
    folder = shared / "models" / "ms-marco-MiniLM-L-12-v2"
    texts, queries = open_texts(CORPUS), dict(read_topics(QUERIES))
    docids = list(texts)
    pairs = []
    for qrel in read_qrels(QRELS)[:60:10]:
        first = min(docids.index(qrel.doc_id), len(docids) - 4)
        pairs += [(queries[qrel.query_id], texts[docid]) for docid in docids[first : first + 4]]
    model = read(folder)
    expected = model.predict(pairs, activation_fn=torch.nn.Identity())
    assert np.ptp(expected) > 15
    for way in (model, folder):
        np.testing.assert_allclose(load_reranker(way).predict(pairs), expected, atol=1e-4)
    difference = np.abs(load_reranker("default").predict(pairs) - expected)
    assert difference.max() < 1.25 and np.median(difference) < 0.2  # logits; of 600 such pairs: 0.98, and 0.08
