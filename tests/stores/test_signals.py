"""Signals: what may be one, what it may return, and what is refused."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.stores.index_folder import BM25_FOLDER, Docids
from tour_pyserini.stores.signals import (
    Bm25Index,
    LuceneSignal,
    QuerySignal,
    check_documents,
    check_signal,
    found_by,
    open_signal,
    signal_files,
    write_bm25,
)

POSITIONS = {"a": 0, "b": 1, "c": 2}


def returning(docids, scores):
    def words(queries, k):
        return docids, scores

    return words


def test_what_a_function_finds_is_put_in_order():
    hits = found_by(returning([["b", "c", "a"], []], [[1, 3, 2], []]), ["x", "y"], 4, POSITIONS)
    assert hits.ids.tolist() == [[2, 0, 1, -1], [-1] * 4]
    assert hits.scores[0].tolist() == [3, 2, 1, -np.inf]
    one = QuerySignal(lambda query, k: (["c", "a"][:k], [2.0, 1.0][:k]))
    assert found_by(one, ["x"], 2, Docids.of(["a", "b", "c"]).positions).ids.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("docids", "scores", "word"),
    [
        ([["a"], ["b", "c"]], [[1], [1]], "2 docids and 1 scores"),
        ([["a"], ["b", "c", "a"]], [[1], [1, 1, 1]], "at most 2"),
        ([["a"], ["q"]], [[1], [1]], "the signal words found the document 'q'"),
        ([["a"], ["b", "b"]], [[1], [1, 1]], "twice"),
        ([["a"], ["b"]], [[1], [float("nan")]], "not a number"),
    ],
)
def test_a_function_that_returns_something_else_is_refused(docids, scores, word):
    with pytest.raises(TourError, match=word):
        found_by(returning(docids, scores), ["x", "y"], 2, POSITIONS)


@pytest.mark.parametrize(
    ("docids", "word"), [(["a", "b", "c", "d"], "has the document 'd'"), (["c", "a"], "lacks .*'b'")]
)
def test_a_signal_of_other_documents_is_refused(docids, word):
    check_documents(SimpleNamespace(docids=["c", "a", "b"]), POSITIONS)
    check_documents(returning([], []), POSITIONS)
    with pytest.raises(TourError, match=word):
        check_documents(SimpleNamespace(docids=docids), POSITIONS)


def test_a_lucene_searcher_is_asked_query_by_query():
    hit = SimpleNamespace(docid="b", score=2.5)
    signal = LuceneSignal(lambda query, k: [hit] * (query == "x") * k)
    assert signal(["x", "y"], 1) == ([["b"], []], [[2.5], []])


def test_opening(tmp_path):
    write_bm25(["the cat", "a dog"], tmp_path / BM25_FOLDER)
    (tmp_path / "docid").write_text("a\nb\n")
    assert isinstance(open_signal(tmp_path), Bm25Index)
    assert signal_files(str(tmp_path)) == str(tmp_path / "bm25")
    function = returning([], [])
    assert open_signal(function) is function and signal_files(function) is None


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda folder: open_signal(str(folder)), "neither a BM25 index nor a Lucene index"),
        (lambda folder: check_signal(str(folder / "nowhere")), "no such folder"),
        (lambda folder: check_signal("no-such-index-at-all"), "no prebuilt index"),
    ],
)
def test_what_is_no_signal_is_refused(tmp_path, make, word):
    with pytest.raises(TourError, match=word):
        make(tmp_path)


@pytest.mark.slow
def test_a_lucene_index_finds_documents(tmp_path):
    (tmp_path / "in").mkdir()
    documents = [{"id": "a", "contents": "a fox"}, {"id": "b", "contents": "two foxes and a hound"}]
    (tmp_path / "in" / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    build = (
        "from tour_pyserini.support.pyserini import ensure_java; ensure_java()\n"
        "import runpy; runpy.run_module('pyserini.index.lucene', run_name='__main__')"
    )
    flags = ["--collection", "JsonCollection", "--input", tmp_path / "in", "--index", tmp_path / "out"]
    flags += ["--generator", "DefaultLuceneDocumentGenerator", "--threads", "1", "--storeRaw"]
    subprocess.run([sys.executable, "-c", build, *map(str, flags)], check=True, capture_output=True)
    assert dict(open_texts(tmp_path / "out")) == {"a": "a fox", "b": "two foxes and a hound"}
    hits = found_by(open_signal(tmp_path / "out"), ["fox", "hounds", "zebra"], 3, POSITIONS)
    assert hits.ids.tolist() == [[0, 1, -1], [1, -1, -1], [-1, -1, -1]]
    assert hits.scores[0, 0] > hits.scores[0, 1] > 0
