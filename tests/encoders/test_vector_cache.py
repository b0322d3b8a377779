"""Query vectors that are kept between runs are those of the encoder, to the last bit."""

import logging
import sqlite3
import time

import numpy as np
import pytest
from tiny_encoder import save_encoder

from tour_pyserini.encoders.encoder_loading import query_encoder_with_cache
from tour_pyserini.encoders.vector_cache import StoredVectorEncoder
from tour_pyserini.encoders.vector_file import VECTORS
from tour_pyserini.support.sqlite_cache import CacheFile


class Counting:
    """An encoder that counts what it encodes."""

    prefix = "query:"

    def __init__(self):
        self.asked = []

    def encode(self, query, **options):
        self.asked.append((query, options))
        return np.full(3, len(query), dtype=np.float32)

    def encode_batch(self, queries):
        self.asked += queries
        return np.array([[len(query), np.pi, hash(query) % 97] for query in queries], dtype=np.float32)


@pytest.fixture
def opened(tmp_path):
    def make(identity="model"):
        encoder = Counting()
        return StoredVectorEncoder(lambda: encoder, {"encoder": identity}, tmp_path / "new" / "q.sqlite"), encoder

    return make


def test_each_query_is_encoded_once(opened):
    first, encoder = opened()
    vectors = first.encode_batch(["a", "bb", "a"])
    assert encoder.asked == ["a", "bb"]
    assert np.array_equal(vectors, Counting().encode_batch(["a", "bb", "a"]))
    second, encoder = opened()
    assert np.array_equal(second.encode_batch(["bb", "a"]), vectors[1:])
    assert np.array_equal(second.encode("bb"), vectors[1])
    assert encoder.asked == []
    assert np.array_equal(second.encode_batch(["ccc", "a"])[1], vectors[0])
    assert encoder.asked == ["ccc"]


def test_the_model_is_loaded_when_it_is_needed(tmp_path):
    loaded = []
    encoder = StoredVectorEncoder(lambda: loaded.append(1) or Counting(), {}, tmp_path / "q.sqlite")
    assert not loaded
    encoder.encode("a")
    encoder.encode("b")
    assert loaded == [1]
    assert encoder.prefix == "query:"


def test_another_model_has_other_vectors(opened):
    opened()[0].encode("a")
    other, encoder = opened("another")
    other.encode("a")
    assert encoder.asked == ["a"]


def test_options_are_passed_to_the_encoder(opened):
    cached, encoder = opened()
    cached.encode("a", max_length=4)
    assert encoder.asked == [("a", {"max_length": 4})]


@pytest.mark.parametrize("damage", ["text", "other program", "row"])
def test_a_damaged_file_does_not_change_vectors(opened, tmp_path, damage, caplog):
    vectors = opened()[0].encode_batch(["a", "bb"])
    path = tmp_path / "new" / "q.sqlite"
    if damage == "text":
        path.write_text("this is not a database" * 100)
    elif damage == "other program":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE theirs (x)")
    else:
        with sqlite3.connect(path) as table:
            table.execute("UPDATE vectors SET value = CAST(substr(value, 1, 8) || zeroblob(12) AS BLOB)")
    with caplog.at_level(logging.WARNING):
        again, encoder = opened()
        assert np.array_equal(again.encode_batch(["a", "bb"]), vectors)
    assert encoder.asked == ["a", "bb"]
    assert bool(caplog.records) == (damage != "row")


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").touch()
    encoder = StoredVectorEncoder(Counting, {}, tmp_path / "file" / "q.sqlite")
    with caplog.at_level(logging.WARNING):
        assert encoder.encode("a").shape == (3,)
    assert "cannot be kept" in caplog.text


def key_of(encoder):
    """The key of a query's vector in the file."""
    return encoder._key("a b")


@pytest.mark.parametrize(
    "other",
    [{"query_prefix": "a"}, {"pooling": "mean"}, {"l2_norm": True}, {"tokenizer": True}, {"device": "cuda:0"}],
    ids=lambda other: next(iter(other)),
)
def test_vectors_of_other_options_are_not_used(tmp_path, other):
    folder = save_encoder(tmp_path)
    if "tokenizer" in other:
        (tmp_path / "tokenizer").mkdir()
        other = {"tokenizer": str(save_encoder(tmp_path / "tokenizer"))}
    first, same = (query_encoder_with_cache(folder, tmp_path / "q.sqlite") for _ in range(2))
    assert key_of(first) == key_of(same) != key_of(query_encoder_with_cache(folder, tmp_path / "q.sqlite", **other))


def test_vectors_of_another_processor_are_not_used(tmp_path, monkeypatch):
    folder = save_encoder(tmp_path)
    here = key_of(query_encoder_with_cache(folder, tmp_path / "q.sqlite"))
    monkeypatch.setattr("tour_pyserini.encoders.encoder_loading.cpu_flags", lambda: ("another",))
    assert key_of(query_encoder_with_cache(folder, tmp_path / "q.sqlite")) != here


def test_the_use_of_an_encoder_is_recorded_once_a_day(tmp_path):
    path = tmp_path / "q.sqlite"
    encoder = StoredVectorEncoder(Counting, {}, path, name="mine")
    encoder.encode("a")
    for age, recorded in ((1000, False), (200_000, True)):
        used = int(time.time()) - age
        with sqlite3.connect(path) as table:
            table.execute("UPDATE models SET last_used = ? WHERE name = 'mine'", (used,))
        table.close()
        encoder.encode("a")
        assert (CacheFile(VECTORS, path).models()[0].last_used != used) == recorded
