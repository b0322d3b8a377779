"""The same cross-encoder gives the same scores with sentence-transformers, transformers and ONNX."""

import json
import re
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, load_reranker

BOUND = 1.25  # in logits; 600 such pairs differed by 0.98 at most, with a median of 0.08
QUERIES, DEPTH = 8, 10


@pytest.fixture(scope="module")
def cross_encoder():
    library = pytest.importorskip("sentence_transformers")
    return lambda folder, **options: library.CrossEncoder(str(folder), device="cpu", **options)


def test_the_sigmoid_of_a_cross_encoder_is_switched_off(bert_folder, cross_encoder, pairs):
    folder = bert_folder()
    model = cross_encoder(folder)
    logits = load_reranker(model).predict(pairs)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), model.predict(pairs), atol=1e-6)
    np.testing.assert_allclose(logits, load_reranker(folder).predict(pairs), atol=1e-5)
    assert load_reranker(model).predict([]).shape == (0,)


def test_the_score_of_a_cross_encoder_with_two_logits_is_their_difference(bert_folder, cross_encoder, pairs):
    folder = bert_folder(labels=2)
    model = cross_encoder(folder)
    np.testing.assert_allclose(load_reranker(model).predict(pairs), load_reranker(folder).predict(pairs), atol=1e-5)


def test_a_cross_encoder_with_three_logits_is_refused(bert_folder, cross_encoder):
    with pytest.raises(TourError, match="3 outputs"):
        load_reranker(cross_encoder(bert_folder(labels=3)))


def test_the_fingerprint_of_a_cross_encoder_depends_on_weights_and_length(bert_folder, cross_encoder, tmp_path):
    folder = bert_folder()
    first = load_reranker(cross_encoder(folder)).fingerprint
    assert load_reranker(cross_encoder(folder)).fingerprint == first
    assert load_reranker(cross_encoder(folder, max_length=20)).fingerprint != first
    assert load_reranker(cross_encoder(bert_folder("other", seed=1))).fingerprint != first
    trained = cross_encoder(folder)
    trained.model.classifier.bias.data += 1
    changed = load_reranker(trained)
    assert changed.fingerprint != first
    assert CachedReranker(changed, tmp_path / "scores").predict([("who", "cat")]).shape == (1,)


@pytest.fixture(scope="module")
def real_pairs(shared):
    """Questions of NQ, each with the passages that share most of its rare words."""
    home = shared / "collections" / "nq-wiki"
    with open(home / "corpus.jsonl", encoding="utf-8") as file:
        texts = [f"{doc['title']} {doc['text']}" for doc in map(json.loads, file)]
    with open(home / "queries.nq-dev.jsonl", encoding="utf-8") as file:
        queries = [json.loads(line)["text"] for line in islice(file, QUERIES)]
    bags = [set(re.findall(r"\w+", text.lower())) for text in texts]
    frequency = Counter(word for bag in bags for word in bag)
    pairs = []
    for query in queries:
        words = set(query.lower().split())
        weights = [sum(np.log(len(texts) / frequency[word]) for word in words & bag) for bag in bags]
        pairs += [(query, texts[index]) for index in np.argsort(-np.array(weights), kind="stable")[:DEPTH]]
    return pairs


@pytest.fixture(scope="module")
def logits(shared, cross_encoder, real_pairs):
    """The logits of each way to run the model, [QUERIES, DEPTH]."""
    folder = shared / "models" / "ms-marco-MiniLM-L-12-v2"
    ways = {"sentence-transformers": cross_encoder(folder), "transformers": folder, "onnx": "default"}
    return {way: load_reranker(spec).predict(real_pairs).reshape(QUERIES, DEPTH) for way, spec in ways.items()}


@pytest.mark.slow
def test_the_logits_of_all_three_libraries_agree(logits):
    expected = logits["sentence-transformers"]
    assert np.ptp(expected) > 15
    np.testing.assert_allclose(logits["transformers"], expected, atol=1e-4)
    difference = np.abs(logits["onnx"] - expected)
    assert difference.max() < BOUND
    assert np.median(difference) < 0.2


@pytest.mark.slow
def test_the_default_reranker_ranks_like_the_cross_encoder(logits):
    expected, actual = logits["sentence-transformers"], logits["onnx"]
    gaps, same = expected[:, :, None] - expected[:, None, :], actual[:, :, None] > actual[:, None, :]
    assert same[gaps > 2 * BOUND].all()
    assert same[gaps > 0.5].mean() > 0.98
    assert (actual.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.8
