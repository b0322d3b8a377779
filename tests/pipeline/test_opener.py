"""What is opened once, and query vectors that are kept."""

import numpy as np
import pytest

from tour_pyserini.opening import CachedQueryEncoder, Opener


def test_things_are_opened_once_for_the_same_arguments():
    made = []

    def make(*args, **options):
        made.append((args, options))
        return object()

    opener = Opener()
    first = opener.open(make, "a", depth=1)
    assert opener.open(make, "a", depth=1) is first
    assert opener.open(make, "a", depth=2) is not first
    inside = opener.open(make, first)
    assert opener.open(make, first) is inside
    assert opener.open(make, object()) is not opener.open(make, object())
    assert len(made) == 5


class Counting:
    prefix = "query:"

    def __init__(self):
        self.asked = []

    def encode(self, query, **options):
        self.asked.append(query)
        return np.array([len(query), len(options)], dtype=np.float32)


@pytest.mark.parametrize("keep", [False, True])
def test_an_opener_keeps_query_vectors_if_it_is_asked_to(keep):
    opener = Opener(keep_query_vectors=keep)
    encoder = opener.open_encoder(Counting)
    assert opener.open_encoder(Counting) is encoder
    assert isinstance(encoder, CachedQueryEncoder) is keep
    for query in ("a", "bb", "a"):
        encoder.encode(query)
    assert encoder.asked == (["a", "bb"] if keep else ["a", "bb", "a"])


def test_a_query_is_encoded_once():
    inner = Counting()
    encoder = CachedQueryEncoder(inner)
    for query, options in (("a", {}), ("bb", {}), ("a", {}), ("a", {"fp16": True})):
        assert encoder.encode(query, **options).tolist() == [len(query), len(options)]
    assert inner.asked == ["a", "bb", "a"]
    assert encoder.prefix == "query:"
    assert not hasattr(encoder, "encode_batch")


def test_a_query_is_encoded_once_in_batches_too():
    class Batching(Counting):
        def encode_batch(self, queries):
            return np.stack([self.encode(query) for query in queries])

    inner = Batching()
    encoder = CachedQueryEncoder(inner)
    assert encoder.encode_batch(["a", "bb", "a"]).tolist() == [[1, 0], [2, 0], [1, 0]]
    assert encoder.encode_batch(["bb", "ccc"]).tolist() == [[2, 0], [3, 0]]
    assert encoder.encode("ccc").tolist() == [3, 0]
    assert inner.asked == ["a", "bb", "ccc"]
