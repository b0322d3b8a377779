"""Adapters of query vectors: what they compute, their file, and the encoders they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from toy_collection import TableEncoder, unit

from tour_pyserini.encoders.query_adapter import AdaptedQueryEncoder, QueryAdapter, corrected
from tour_pyserini.errors import TourError


class HashEncoder:
    """Vectors [d] that depend on the text and a seed."""

    def __init__(self, seed=0, dimension=4):
        self.seed, self.dimension = seed, dimension

    def encode(self, query, **_):
        return unit(np.random.default_rng([self.seed, *query.encode()]), self.dimension)


class BatchEncoder(HashEncoder):
    def encode_batch(self, queries):
        return np.stack([self.encode(query) for query in queries])


def adapter(encoder=None, *, rank=2, seed=1):
    encoder = encoder or HashEncoder()
    random = np.random.default_rng(seed)
    matrices = random.normal(size=(2, encoder.dimension, rank))
    return QueryAdapter(*matrices, QueryAdapter.probe(encoder), {"encoder": "hash", "chosen": {"rank": rank}})


def test_a_correction_by_hand():
    # q + U V^T q = [3, 4] + [1, 0] * 4 = [7, 4], scaled from the length sqrt(65) to 5.
    found = corrected(np.array([[3.0, 4.0]]), np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))
    assert found == pytest.approx(np.array([[7.0, 4.0]]) * 5 / np.sqrt(65))
    assert found.dtype == np.float32
    vector = np.array([[1.0, 0.0]], dtype=np.float32)
    assert corrected(vector, -np.eye(2), np.eye(2)).tolist() == vector.tolist()  # it would vanish


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 4), st.floats(0.1, 50))
def test_lengths_stay_and_rows_do_not_depend_on_each_other(seed, count, rank, length):
    random = np.random.default_rng(seed)
    vectors = (length * unit(random, count, 4)).astype(np.float32)
    left, right = random.normal(size=(2, 4, rank)).astype(np.float32)
    together = corrected(vectors, left, right)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.full(count, length), rel=1e-4)
    alone = np.concatenate([corrected(vector[None], left, right) for vector in vectors])
    assert np.array_equal(together, alone)
    assert np.allclose(corrected(vectors, 0 * left, right), vectors, rtol=1e-6)


def test_the_file_holds_the_adapter_and_is_the_same_each_time(tmp_path):
    made = adapter()
    for name in ("a", "b"):
        made.write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = QueryAdapter.read(tmp_path / "a")
    assert all(np.array_equal(getattr(read, name), getattr(made, name)) for name in ("left", "right", "probes"))
    assert read.about == made.about and read.fingerprint == made.fingerprint
    assert adapter(seed=2).fingerprint != made.fingerprint


@pytest.mark.parametrize("kind", [HashEncoder, BatchEncoder])
def test_an_adapted_encoder_gives_corrected_vectors(kind, tmp_path):
    adapter().write(tmp_path / "a")
    encoder = AdaptedQueryEncoder(kind(), tmp_path / "a")
    plain = kind().encode("a query")
    expected = corrected(plain[None], encoder.adapter.left, encoder.adapter.right)[0]
    assert np.array_equal(encoder.encode("a query"), expected) and not np.allclose(expected, plain)
    assert np.array_equal(encoder.encode_batch(["x", "a query"])[1], expected)


class Rounded(HashEncoder):
    def encode(self, query, **_):
        return super().encode(query).astype(np.float16)


@pytest.mark.parametrize(
    ("encoder", "word"),
    [
        (HashEncoder(seed=5), r"another query encoder \(hash\)"),
        (HashEncoder(dimension=8), "4 dimensions"),
        (TableEncoder({}), "give the encoder"),
    ],
)
def test_another_encoder_is_refused_and_small_differences_are_not(encoder, word):
    AdaptedQueryEncoder(Rounded(), adapter())
    with pytest.raises(TourError, match=word):
        AdaptedQueryEncoder(encoder, adapter())


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (lambda path: path.write_bytes(b"\x80\x04]"), "not an adapter"),
        (lambda path: save_file({}, path, {"tour_adapter": '{"version": 99}'}), "layout 99"),
        (lambda path: None, "does not exist"),
    ],
)
def test_a_file_that_is_no_adapter_is_refused(tmp_path, write, word):
    with pytest.raises(TourError, match=word):
        write(tmp_path / "bad.adapter")
        QueryAdapter.read(tmp_path / "bad.adapter")
