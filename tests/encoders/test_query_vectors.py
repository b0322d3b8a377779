"""Vectors of queries: a file that keeps them to the last bit, and encoded queries; unsafe files are refused."""

import logging
import os
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest
from tiny_encoder import save_encoder

from tour_pyserini.encoders import query_vectors
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.query_vectors import CachedQueryEncoder, load_encoded_queries, write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.support.pyserini import ensure_java


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


def test_the_model_is_loaded_once_by_one_thread_and_gets_options(tmp_path):
    loaded, encoder = [], Counting()
    cached = CachedQueryEncoder(lambda: loaded.append(1) or encoder, {}, tmp_path / "q.sqlite")
    assert not loaded
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cached.encode, [f"query {i}" for i in range(20)]))
    cached.encode("a", max_length=4)
    assert loaded == [1]
    assert sorted(encoder.asked[:-1]) == sorted(f"query {i}" for i in range(20))
    assert encoder.asked[-1] == ("a", {"max_length": 4})


@pytest.mark.parametrize("damage", ["text", "other program", "row", "folder"])
def test_a_damaged_file_does_not_change_vectors(opened, tmp_path, damage, caplog):
    vectors = opened()[0].encode_batch(["a", "bb"])
    path = tmp_path / "new" / "q.sqlite"
    if damage == "folder":  # it can neither be read nor written
        path.unlink()
        path.mkdir()
    elif damage == "text":
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


OTHER = [{"query_prefix": "a"}, {"pooling": "mean"}, {"l2_norm": True}, {"backend": "torch"}, {"precision": "int8"}]


@pytest.mark.parametrize("other", [*OTHER, {"tokenizer": True}, {}], ids=lambda other: next(iter(other), "processor"))
def test_vectors_of_other_options_are_not_used(tmp_path, other, monkeypatch):
    def rows():
        with query_vectors.SqliteVectors(path) as cache:
            return sum(use.rows for use in cache.models())

    folder, path = save_encoder(tmp_path), tmp_path / "q.sqlite"
    if "tokenizer" in other:
        (tmp_path / "tokenizer").mkdir()
        other = {"tokenizer": str(save_encoder(tmp_path / "tokenizer"))}
    options = {"backend": "onnx"}
    for _ in range(2):
        load_query_encoder(folder, cache=path, **options).encode("a b")
    assert rows() == 1
    if not other:  # the same product of matrices may be rounded differently on another processor
        monkeypatch.setattr("tour_pyserini.encoders.loading.cpu_flags", lambda: ("another", "avx2"))
    load_query_encoder(folder, cache=path, **{**options, **other}).encode("a b")
    assert rows() == 2


def test_written_queries_are_read_by_pyserini_and_by_this_package(tmp_path):
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_encoded_queries(tmp_path / "queries", ["1", "2"], ["one", "two"], vectors)
    ensure_java()
    from pyserini.encode import QueryEncoder

    for encoder in (QueryEncoder(str(tmp_path / "queries")), load_encoded_queries(tmp_path / "queries")):
        assert np.array_equal(encoder.encode("two"), vectors[1])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


FRAMES = {
    "arrays": [np.arange(3, dtype=np.float32) + row for row in range(3)],
    "rows of a matrix": [np.arange(3.0).reshape(1, 3) + row for row in range(3)],
    "lists": [[0.0, 1, 2], [1.0, 2, 3], [2.0, 3, 4]],
    "lists of NumPy's numbers": [[np.float32(row + i) for i in range(3)] for row in range(3)],
}


@pytest.mark.parametrize("texts", ["str", "object", "string[pyarrow]"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("kind", FRAMES)
def test_every_protocol_and_kind_of_column_is_read(tmp_path, kind, protocol, texts):
    frame = pandas.DataFrame({"id": [7, 8, 9], "text": ["one", "twé", "three"], "embedding": FRAMES[kind]})
    frame["text"] = frame["text"].astype(texts)
    (tmp_path / "embedding.pkl").write_bytes(pickle.dumps(frame, protocol=protocol))
    encoder = load_encoded_queries(tmp_path)
    for row, text in enumerate(("one", "twé", "three")):
        assert encoder.encode(text).reshape(-1).tolist() == [row, row + 1, row + 2]


# What pandas 1.1 wrote with protocol 4: a block manager with a state instead of arguments.
OLD_FRAME = (
    b"\x80\x04\x8c\x11pandas.core.frame\x8c\tDataFrame\x93)\x81}\x8c\x04_mgr\x8c\x1epandas.core.internals.managers"
    b"\x8c\x0cBlockManager\x93)\x81(]]]}\x8c\x060.14.1}(\x8c\x04axes](\x8c\x18pandas.core.indexes.base\x8c\n_new_Index"
    b"\x93\x8c\x18pandas.core.indexes.base\x8c\x05Index\x93}\x8c\x04data\x8c\x15numpy.core.multiarray\x8c\x0c_reconstruct"
    b"\x93\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01b\x87R(K\x01K\x02\x85\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02O8K\x00K\x01"
    b"\x87R\x89](\x8c\x04text\x8c\tembeddingetbs\x86RNe\x8c\x06blocks](}(\x8c\x06values\x8c\x15numpy.core.multiarray\x8c\x0c_reconstruct"
    b"\x93\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01b\x87R(K\x01K\x02K\x01\x86\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02O8K\x00K\x01"
    b"\x87R\x89](\x8c\x03one](G?\xf0\x00\x00\x00\x00\x00\x00K\x02eetb\x8c\x08mgr_locs\x8c\x08builtins\x8c\x05slice\x93K\x00K\x02K\x01\x87R"
    b"ueustbsb."
)


def test_the_layout_of_old_versions_of_pandas_is_read(tmp_path):
    (tmp_path / "embedding.pkl").write_bytes(OLD_FRAME)
    assert load_encoded_queries(tmp_path).encode("one").tolist() == [1.0, 2.0]


def table(**columns):
    columns = {"text": pandas.Series(["one"], dtype=object), "embedding": [np.ones(3, dtype=np.float32)], **columns}
    return pickle.dumps(pandas.DataFrame(columns), protocol=4)


def lying_arrow():
    """A column of texts in an Arrow array with an offset outside its content."""
    texts = pandas.Series(["one", "two"], dtype="string[pyarrow]")
    raw = pickle.dumps(pandas.DataFrame({"text": texts, "embedding": [[1.0], [2.0]]}), protocol=5)
    old, new = b"\x06" + b"\x00" * 7, b"\xff" * 6 + b"\x7f\x00"
    assert old in raw
    return raw.replace(old, new)


def calls(module, name, argument):
    module, name, argument = (b"\x8c" + bytes([len(text)]) + text for text in (module, name, argument))
    return b"\x80\x04" + module + name + b"\x93" + argument + b"\x85R."


HOSTILE = {
    "a folder is made": pickle.dumps(Evil()),
    "code is evaluated": calls(b"builtins", b"eval", b"__import__('os').mkdir('made-by-a-pickle')"),
    "objects in a buffer": b"\x80\x04\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93(C\x08AAAAAAAA"
    b"\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02O8\x85RK\x01\x85\x8c\x01CtR.",
    "a method of an allowed class": calls(b"pandas", b"DataFrame.eval", b"1"),
    "an allowed module imports another": calls(b"numpy", b"os.mkdir", b"made-by-a-pickle"),
    "an Arrow offset that lies": lying_arrow(),
    "a list in itself 100,000 deep": b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a state that contains itself": b"\x80\x04\x8c\x06pandas\x8c\tDataFrame\x93)\x81}\x94\x8c\x04_mgrh\x00sb.",
    "texts for vectors": table(embedding=["one two three"]),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_run_nothing_and_are_refused_in_one_sentence(tmp_path, monkeypatch, raw):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedding.pkl").write_bytes(raw)
    with pytest.raises(TourError) as refusal:
        load_encoded_queries(tmp_path)
    message = str(refusal.value)
    assert message.startswith(str(tmp_path / "embedding.pkl")) and message.endswith(".") and len(message) < 400
    assert "\n" not in message
    assert not (tmp_path / "made-by-a-pickle").exists()
