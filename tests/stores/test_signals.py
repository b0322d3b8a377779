"""Signals: what may be one, what it may return, and what is refused."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.stores.bm25_index import FOLDER, Bm25Index, write_bm25
from tour_pyserini.stores.signals import LuceneSignal, check_signal, found_by, open_signal, signal_files

POSITIONS = {"a": 0, "b": 1, "c": 2}


def returning(docids, scores):
    def words(queries, k):
        return docids, scores

    return words


def test_what_a_function_finds_is_put_in_order():
    hits = found_by(returning([["b", "c", "a"], []], [[1, 3, 2], []]), ["x", "y"], 4, POSITIONS)
    assert hits.ids.tolist() == [[2, 0, 1, -1], [-1] * 4]
    assert hits.scores[0].tolist() == [3, 2, 1, -np.inf]


@pytest.mark.parametrize(
    ("docids", "scores", "message"),
    [
        ([["a"]], [[1]], "1 lists of docids for 2 queries"),
        ([["a"], ["b", "c"]], [[1], [1]], "2 docids and 1 scores for the query 'y'"),
        ([["a"], ["b", "c", "a"]], [[1], [1, 1, 1]], "at most 2"),
        ([["a"], ["q"]], [[1], [1]], "found the document 'q', which the index does not have"),
        ([["a"], ["b", "b"]], [[1], [1, 1]], "a document twice for the query 'y'"),
        ([["a"], ["b"]], [[1], [float("nan")]], "not a number for 'y'"),
    ],
)
def test_a_function_that_returns_something_else_is_refused(docids, scores, message):
    with pytest.raises(TourError, match=message) as raised:
        found_by(returning(docids, scores), ["x", "y"], 2, POSITIONS)
    assert str(raised.value).startswith("the signal words ")


def test_a_lucene_searcher_is_asked_query_by_query():
    hit = SimpleNamespace(docid="b", score=2.5)
    signal = LuceneSignal(SimpleNamespace(search=lambda query, k: [hit] * (query == "x") * k))
    assert signal(["x", "y"], 1) == ([["b"], []], [[2.5], []])


def test_opening(tmp_path):
    write_bm25(["the cat", "a dog"], tmp_path / FOLDER)
    (tmp_path / "docid").write_text("a\nb\n")
    check_signal(str(tmp_path))
    assert isinstance(open_signal(tmp_path), Bm25Index)
    assert signal_files(str(tmp_path)) == str(tmp_path / "bm25")
    function = returning([], [])
    assert open_signal(function) is function and signal_files(function) is None


def test_what_is_no_signal_is_refused(tmp_path):
    with pytest.raises(TourError, match="neither a BM25 index nor a Lucene index"):
        open_signal(str(tmp_path))
    with pytest.raises(TourError, match="there is no such folder"):
        check_signal(str(tmp_path / "nowhere"))
    with pytest.raises(TourError, match="no prebuilt index with this name"):
        check_signal("no-such-index-at-all")
    with pytest.raises(TourError, match="not int"):
        open_signal(3)


@pytest.mark.slow
def test_a_lucene_index_finds_documents(tmp_path):
    (tmp_path / "in").mkdir()
    documents = [{"id": "a", "contents": "a fox"}, {"id": "b", "contents": "two foxes and a hound"}]
    (tmp_path / "in" / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    build = (
        "from tour_pyserini.support.java import ensure_java; ensure_java()\n"
        "import runpy; runpy.run_module('pyserini.index.lucene', run_name='__main__')"
    )
    flags = ["--collection", "JsonCollection", "--input", tmp_path / "in", "--index", tmp_path / "out"]
    flags += ["--generator", "DefaultLuceneDocumentGenerator", "--threads", "1"]
    subprocess.run([sys.executable, "-c", build, *map(str, flags)], check=True, capture_output=True)
    check_signal(str(tmp_path / "out"))
    hits = found_by(open_signal(tmp_path / "out"), ["fox", "hounds", "zebra"], 3, POSITIONS)
    assert hits.ids.tolist() == [[0, 1, -1], [1, -1, -1], [-1, -1, -1]]
    assert hits.scores[0, 0] > hits.scores[0, 1] > 0
