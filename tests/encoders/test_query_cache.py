"""Query vectors that are kept between runs are those of the encoder, to the last bit."""

import logging
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_encoder import save_encoder

from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.query_vectors import VECTORS, CachedQueryEncoder
from tour_pyserini.support.sqlite_cache import SqliteCache


def models_of(path):
    with SqliteCache(path, VECTORS) as cache:
        return cache.models()


class Counting:
    """An encoder that counts what it encodes."""

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
        return CachedQueryEncoder(lambda: encoder, {"encoder": identity}, tmp_path / "new" / "q.sqlite"), encoder

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


def test_the_model_is_loaded_once_when_it_is_needed_and_options_are_passed_to_it(tmp_path):
    loaded, encoder = [], Counting()
    cached = CachedQueryEncoder(lambda: loaded.append(1) or encoder, {}, tmp_path / "q.sqlite")
    assert not loaded
    cached.encode("a")
    cached.encode("b")
    cached.encode("a", max_length=4)
    assert loaded == [1]
    assert encoder.asked == ["a", "b", ("a", {"max_length": 4})]


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
    assert caplog.records


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").touch()
    encoder = CachedQueryEncoder(Counting, {}, tmp_path / "file" / "q.sqlite")
    with caplog.at_level(logging.WARNING):
        assert encoder.encode("a").shape == (3,)
    assert "not kept" in caplog.text


@pytest.mark.parametrize(
    "other",
    [{"query_prefix": "a"}, {"pooling": "mean"}, {"l2_norm": True}, {"tokenizer": True}, {"backend": "torch"}, {}],
    ids=lambda other: next(iter(other), "processor"),
)
def test_vectors_of_other_options_are_not_used(tmp_path, other, monkeypatch):
    folder, path = save_encoder(tmp_path), tmp_path / "q.sqlite"
    if "tokenizer" in other:
        (tmp_path / "tokenizer").mkdir()
        other = {"tokenizer": str(save_encoder(tmp_path / "tokenizer"))}
    options = {"backend": "onnx"}
    for _ in range(2):
        load_query_encoder(folder, cache=path, **options).encode("a b")
    assert sum(use.rows for use in models_of(path)) == 1
    if not other:  # the same product of matrices may be rounded differently on another processor
        monkeypatch.setattr("tour_pyserini.encoders.loading.cpu_flags", lambda: ("another", "avx2"))
    load_query_encoder(folder, cache=path, **{**options, **other}).encode("a b")
    assert sum(use.rows for use in models_of(path)) == 2


def test_threads_share_it_and_one_encodes_at_a_time(opened):
    cached, encoder = opened()
    busy = []
    plain = encoder.encode_batch

    def slow(queries):
        busy.append(1)
        time.sleep(0.002)
        assert len(busy) == 1
        busy.pop()
        return plain(queries)

    encoder.encode_batch = slow
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cached.encode, [f"query {i}" for i in range(20)]))
    assert sorted(encoder.asked) == sorted(f"query {i}" for i in range(20))


def test_the_use_of_an_encoder_is_recorded_once_a_day(tmp_path):
    path = tmp_path / "q.sqlite"
    encoder = CachedQueryEncoder(Counting, {}, path, name="mine")
    encoder.encode("a")
    for age, recorded in ((1000, False), (200_000, True)):
        used = int(time.time()) - age
        with sqlite3.connect(path) as table:
            table.execute("UPDATE models SET last_used = ? WHERE name = 'mine'", (used,))
        table.close()
        encoder.encode("a")
        assert (models_of(path)[0].last_used != used) == recorded
