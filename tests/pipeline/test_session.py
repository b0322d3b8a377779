import numpy as np

from tour_pyserini.experiments.session import EncodedOnce, Session


def test_things_are_opened_once_for_the_same_arguments():
    made = []

    def make(*args, **options):
        made.append((args, options))
        return object()

    session = Session()
    first = session.once(make, "a", depth=1)
    assert session.once(make, "a", depth=1) is first
    assert session.once(make, "a", depth=2) is not first
    inside = session.once(make, first)
    assert session.once(make, first) is inside
    assert session.once(make, object()) is not session.once(make, object())
    assert len(made) == 5


def test_what_is_made_can_be_wrapped():
    wrapped = Session({str: lambda text: [text]})
    assert wrapped.once(str, 3) == ["3"]
    assert wrapped.once(int, "3") == 3


class Counting:
    prefix = "query:"

    def __init__(self):
        self.asked = []

    def encode(self, query, **options):
        self.asked.append(query)
        return np.array([len(query), len(options)], dtype=np.float32)


def test_a_query_is_encoded_once():
    inner = Counting()
    encoder = EncodedOnce(inner)
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
    encoder = EncodedOnce(inner)
    assert encoder.encode_batch(["a", "bb", "a"]).tolist() == [[1, 0], [2, 0], [1, 0]]
    assert encoder.encode_batch(["bb", "ccc"]).tolist() == [[2, 0], [3, 0]]
    assert encoder.encode("ccc").tolist() == [3, 0]
    assert inner.asked == ["a", "bb", "ccc"]
