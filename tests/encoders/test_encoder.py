"""Queries: the vectors of a batch are those of each query alone, and what is no query or no vector is refused."""

import numpy as np
import pytest

from tour_pyserini.encoders.encoder import encode_queries, text_of
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.model_folder import verify_default_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.support.pyserini import ensure_java

TEXT = "who wrote the first novel about a white whale and when was it published in new york"
WORDS = TEXT.split()
QUERIES = [" ".join(WORDS[start : start + 2 + start % 7]) for start in range(len(WORDS) - 2)] * 3 + ["whale " * 600]


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_a_vector_does_not_depend_on_the_batch_and_is_that_of_pyserini(backend):
    encoder = load_query_encoder("default", backend=backend)
    alone = np.stack([encoder.encode(query) for query in QUERIES])
    assert np.array_equal(encoder.encode_batch(QUERIES), alone)
    order = np.random.default_rng(1).permutation(len(QUERIES))
    assert np.array_equal(encode_queries(encoder, [QUERIES[i] for i in order], order, 384), alone[order])
    dicts = [{"query": QUERIES[0]}, {"query": QUERIES[1]}]
    assert np.array_equal(encode_queries(encoder, dicts, ["a", "b"], 384), alone[:2])
    ensure_java()
    from pyserini.encode import AutoQueryEncoder

    own = AutoQueryEncoder(encoder_dir=str(verify_default_encoder()), device="cpu", pooling="mean", l2_norm=True)
    assert alone[:10] == pytest.approx(np.stack([own.encode(query) for query in QUERIES[:10]]), abs=1e-6)
    assert encoder.encode(QUERIES[0], max_length=4) == pytest.approx(own.encode(QUERIES[0], max_length=4), abs=1e-6)


def test_the_text_of_a_query():
    assert (
        text_of("a b", "1") == text_of({"title": "a b"}, "1") == text_of({"query": "a b", "title": "c"}, "1") == "a b"
    )


class Table:
    def __init__(self, **vectors):
        self.vectors = vectors

    def encode(self, query):
        return self.vectors[query]


@pytest.mark.parametrize(
    ("work", "word"),
    [
        (lambda: text_of(3, "q7"), "'q7' must be a string"),
        (lambda: text_of({"title": " "}, "q7"), "'q7' is empty"),
        (lambda: encode_queries(Table(a=[1.0]), ["a"], ["q7"], 2), "1 dimensions"),
        (lambda: encode_queries(Table(a=[np.nan]), ["a"], ["q7"], 1), "'q7' contains NaN"),
        (lambda: encode_queries(Table(), ["a"], ["q7"], 1), "no vector for query 'q7'"),
        (lambda: encode_queries(None, np.full((1, 2), np.inf), ["q7"], 2), "'q7' contains NaN"),
        (lambda: load_query_encoder(len).encode("a", max_length=3), "maximum length"),
    ],
)
def test_refusals(work, word):
    with pytest.raises(TourError, match=word):
        work()
