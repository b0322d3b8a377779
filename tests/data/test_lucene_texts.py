import json
import subprocess
import sys

import pytest

from tour_pyserini.data.documents import UnknownDocument
from tour_pyserini.data.texts import LuceneTexts, open_texts
from tour_pyserini.errors import TourError


class Stored:
    def __init__(self, docid, raw, contents=None):
        self.docid, self.raw, self.contents = lambda: docid, lambda: raw, lambda: contents


class Searcher:
    def __init__(self, *documents):
        self.documents = documents
        self.num_docs = len(documents)

    def doc(self, key):
        if isinstance(key, int):
            return self.documents[key]
        return next((document for document in self.documents if document.docid() == key), None)


@pytest.mark.parametrize(
    ("raw", "contents", "expected"),
    [
        ('{"title": "T", "text": "x"}', None, "T x"),
        ('{"title": "", "text": "x"}', None, "x"),
        ('{"id": "a", "contents": "T\\nx"}', None, "T\nx"),
        ('{"other": 1}', "stored", "stored"),
        ("plain text", "stored", "stored"),
        ("plain text", None, "plain text"),
        (None, "stored", "stored"),
    ],
)
def test_a_stored_document_gives_its_passage(raw, contents, expected):
    assert LuceneTexts(Searcher(Stored("a", raw, contents)), "here")["a"] == expected


@pytest.mark.parametrize(
    ("contents", "whole", "parts"),
    [
        ('"Aaron"\nAaron is a prophet.', "Aaron\nAaron is a prophet.", ("Aaron", "Aaron is a prophet.")),
        ("Aaron\nAaron is a prophet.", "Aaron\nAaron is a prophet.", ("Aaron", "Aaron is a prophet.")),
        ('"""Heroes"" (song)"\nA song.', '"Heroes" (song)\nA song.', ('"Heroes" (song)', "A song.")),
        ('""\nA text.', '""\nA text.', ('""', "A text.")),
    ],
)
def test_the_first_of_two_lines_is_the_title(contents, whole, parts):
    found = LuceneTexts(Searcher(Stored("a", json.dumps({"id": "a", "contents": contents}))), "here")["a"]
    assert found == whole
    assert found.parts == parts


@pytest.mark.parametrize("contents", ["one line", "T\n", "\nx", "three\nlines\nof text"])
def test_other_contents_have_no_title(contents):
    found = LuceneTexts(Searcher(Stored("a", json.dumps({"contents": contents}))), "here")["a"]
    assert found == contents
    assert type(found) is str


def test_title_and_text_of_a_stored_document_are_its_parts():
    found = LuceneTexts(Searcher(Stored("a", '{"title": "T", "text": "x"}')), "here")["a"]
    assert found.parts == ("T", "x")


def test_all_documents_of_an_index_are_listed():
    texts = LuceneTexts(Searcher(Stored("a", '{"text": "x"}'), Stored("b", '{"text": "y"}')), "here")
    assert dict(texts) == {"a": "x", "b": "y"}


def test_the_error_names_an_unknown_document_or_one_without_text():
    texts = LuceneTexts(Searcher(Stored("a", None)), "here")
    with pytest.raises(UnknownDocument, match="'z' is not in here"):
        texts["z"]
    with pytest.raises(TourError, match="stores no text for document 'a'"):
        texts["a"]


def test_a_name_that_is_not_a_prebuilt_index_is_refused():
    with pytest.raises(TourError, match="no-such-index"):
        open_texts("no-such-index")


@pytest.mark.slow
def test_a_lucene_index_is_read(tmp_path):
    (tmp_path / "in").mkdir()
    documents = [{"id": "d1", "title": "T", "text": "fox", "contents": "T fox"}, {"id": "d2", "contents": "hound"}]
    (tmp_path / "in" / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    build = (
        "from tour_pyserini.support.java import ensure_java; ensure_java()\n"
        "import runpy; runpy.run_module('pyserini.index.lucene', run_name='__main__')"
    )
    flags = ["--collection", "JsonCollection", "--input", tmp_path / "in", "--index", tmp_path / "out"]
    flags += ["--generator", "DefaultLuceneDocumentGenerator", "--threads", "1", "--storeRaw"]
    subprocess.run([sys.executable, "-c", build, *map(str, flags)], check=True, capture_output=True)
    texts = open_texts(tmp_path / "out")
    assert dict(texts) == {"d1": "T fox", "d2": "hound"}
    assert "d3" not in texts
