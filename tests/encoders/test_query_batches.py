"""Queries encoded in groups have exactly the vectors of queries encoded one by one."""

import numpy as np
import pytest

from tour_pyserini.encoders.encoder import encode_queries
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.model_folder import verify_default_encoder
from tour_pyserini.support.java import ensure_java

TEXT = "who wrote the first novel about a white whale and when was it published in new york"
WORDS = TEXT.split()
QUERIES = [" ".join(WORDS[start : start + 2 + start % 7]) for start in range(len(WORDS) - 2)] * 3 + ["whale " * 600]


@pytest.fixture(scope="module", params=["torch", "onnx"])
def encoder(request):
    return load_query_encoder("default", backend=request.param)


def test_a_vector_does_not_depend_on_the_batch(encoder):
    alone = np.stack([encoder.encode(query) for query in QUERIES])
    assert np.array_equal(encoder.encode_batch(QUERIES), alone)
    order = np.random.default_rng(1).permutation(len(QUERIES))
    assert np.array_equal(encode_queries(encoder, [QUERIES[i] for i in order], order, 384), alone[order])


def test_vectors_are_those_of_pyserini(encoder):
    ensure_java()
    from pyserini.encode import AutoQueryEncoder

    own = AutoQueryEncoder(encoder_dir=str(verify_default_encoder()), device="cpu", pooling="mean", l2_norm=True)
    expected = np.stack([own.encode(query) for query in QUERIES[:10]])
    assert encoder.encode_batch(QUERIES[:10]) == pytest.approx(expected, abs=1e-6)
    assert encoder.encode(QUERIES[0], max_length=4) == pytest.approx(own.encode(QUERIES[0], max_length=4), abs=1e-6)


def test_queries_are_encoded_one_by_one_if_groups_change_vectors(monkeypatch):
    encoder = load_query_encoder("default", backend="torch")
    runner, sizes = encoder.runner, []
    plain, forward = type(runner)._encode, type(runner)._forward
    monkeypatch.setattr(
        type(runner), "_encode", lambda self, texts, prompt: sizes.append(len(texts)) or plain(self, texts, prompt)
    )
    encoder.encode_batch(QUERIES)
    assert max(sizes) > 1
    sizes.clear()
    monkeypatch.delitem(vars(runner), "groups_are_exact")
    monkeypatch.setattr(type(runner), "_forward", lambda self, ids: forward(self, ids) + len(ids))
    assert not runner.groups_are_exact
    encoder.encode_batch(QUERIES)
    assert set(sizes) == {1}


def test_queries_given_as_dicts_are_encoded_one_by_one(encoder):
    vectors = encode_queries(encoder, [{"query": QUERIES[0]}, {"query": QUERIES[1]}], ["a", "b"], 384)
    assert np.array_equal(vectors, encoder.encode_batch(QUERIES[:2]))
