"""Queries encoded in groups have exactly the vectors of queries encoded one by one."""

import numpy as np
import pytest

from tour_pyserini.encoders.default_encoder import verify_default_encoder
from tour_pyserini.encoders.encoder_loading import load_query_encoder
from tour_pyserini.encoders.grouped_encoder import pooled
from tour_pyserini.encoders.queries import encode_queries
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.java import ensure_java

TEXT = "who wrote the first novel about a white whale and when was it published in new york"
WORDS = TEXT.split()
QUERIES = [" ".join(WORDS[start : start + 2 + start % 7]) for start in range(len(WORDS) - 2)] * 3 + ["whale " * 600]


@pytest.fixture(scope="module")
def encoder():
    return load_query_encoder("default")


def test_a_vector_does_not_depend_on_the_batch(encoder):
    alone = np.stack([encoder.encode(query) for query in QUERIES])
    assert np.array_equal(encoder.encode_batch(QUERIES), alone)
    order = np.random.default_rng(1).permutation(len(QUERIES))
    assert np.array_equal(encode_queries(encoder, [QUERIES[i] for i in order], order, 384), alone[order])


def test_vectors_are_those_of_pyserini(encoder):
    ensure_java()
    from pyserini.encode import AutoQueryEncoder

    own = AutoQueryEncoder(encoder_dir=str(verify_default_encoder()), device="cpu", pooling="mean", l2_norm=True)
    with torch_threads(1):
        expected = np.stack([own.encode(query) for query in QUERIES[:10]])
    assert np.array_equal(encoder.encode_batch(QUERIES[:10]), expected)
    assert encoder.encode(QUERIES[0], max_length=4) == pytest.approx(own.encode(QUERIES[0], max_length=4), abs=1e-6)


def test_queries_are_encoded_one_by_one_if_groups_change_vectors(encoder, monkeypatch):
    sizes, plain = [], type(encoder)._vectors
    monkeypatch.setattr(type(encoder), "_vectors", lambda self, ids: sizes.append(len(ids)) or plain(self, ids))
    encoder.encode_batch(QUERIES)
    assert max(sizes) > 1
    sizes.clear()
    monkeypatch.setattr(
        type(encoder), "_vectors", lambda self, ids: sizes.append(len(ids)) or plain(self, ids) + len(ids)
    )
    monkeypatch.delitem(vars(encoder), "groups_are_exact")
    assert not encoder.groups_are_exact
    sizes.clear()
    encoder.encode_batch(QUERIES)
    assert set(sizes) == {1}
    monkeypatch.undo()
    vars(encoder).pop("groups_are_exact", None)


def test_queries_given_as_dicts_are_encoded_one_by_one(encoder):
    vectors = encode_queries(encoder, [{"query": QUERIES[0]}, {"query": QUERIES[1]}], ["a", "b"], 384)
    assert np.array_equal(vectors, encoder.encode_batch(QUERIES[:2]))


@pytest.mark.parametrize("mean", [True, False])
def test_pooling_and_norm_are_sklearns_to_the_last_bit(mean):
    from sklearn.preprocessing import normalize

    outputs = np.random.default_rng(4).normal(size=(5, 7, 96)).astype(np.float32)
    outputs[1] = 0
    outputs[2] *= 1e-9
    plain = np.average(outputs, axis=-2) if mean else outputs[:, 0, :]
    assert np.array_equal(pooled(outputs, mean=mean, l2_norm=False), plain)
    assert np.array_equal(pooled(outputs, mean=mean, l2_norm=True), normalize(plain, norm="l2"))
