"""Data sets of ir_datasets: one that is made here, and one that cannot be had."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from ir_measures import Qrel

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.texts import BeirTexts, UnknownDocument, corpus_file, open_texts
from tour_pyserini.data.topics import read_questions, read_topics
from tour_pyserini.errors import TourError

ir_datasets = pytest.importorskip("ir_datasets")


class Document(NamedTuple):
    doc_id: str
    title: str
    text: str
    year: int


class Query(NamedTuple):
    query_id: str
    text: str
    answers: list

    def default_text(self):
        return self.text


DOCUMENTS = [Document("d1", "First", "one", 2020), Document("d2", "", "two\nlines", 2021)]
DOCUMENTS += [Document("d3", "Third", "three", 2020), Document("d4", "A title alone", "", 2020)]
STORE = SimpleNamespace(get_many=lambda docids: {found.doc_id: found for found in DOCUMENTS if found.doc_id in docids})
PARTS = {
    "docs": DOCUMENTS,
    "queries": [Query("q2", "who", ["A"]), Query("q1", " why ", [])],
    "qrels": [SimpleNamespace(query_id="q1", doc_id="d1", relevance=2)],
}


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """A data set that ir_datasets knows during this test; `irds:letters/docs` has documents alone."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    readers, load = {f"{part}_iter": found.__iter__ for part, found in PARTS.items()}, ir_datasets.load
    readers |= {"docs_store": lambda: STORE, "docs_count": lambda: None}
    known = {"letters": SimpleNamespace(has=PARTS.__contains__, **readers)}
    known["letters/docs"] = SimpleNamespace(has="docs".__eq__, **readers)
    monkeypatch.setattr(ir_datasets, "load", lambda name: known[name] if name in known else load(name))
    return "irds:letters"


def test_a_data_set_is_documents_topics_and_judgements(letters):
    texts = open_texts(letters)
    assert dict(texts) == {"d1": "First one", "d2": "two\nlines", "d3": "Third three", "d4": "A title alone"}
    assert len(texts) == 4 and texts["d1"].parts == ("First", "one") and "d9" not in texts
    assert texts["d4"].parts == ("A title alone", "")
    with pytest.raises(UnknownDocument, match="'d9' is not in irds:letters"):
        texts["d9"]
    assert list(read_topics(letters)) == [("q1", "why"), ("q2", "who")]
    assert read_questions(letters)[0] == ("q2", "who", ["A"])
    assert read_qrels(letters) == [Qrel("q1", "d1", 2)]
    corpus = BeirTexts(corpus_file(letters))
    assert dict(corpus) == dict(texts)
    assert dict(corpus.fields()) == dict(texts.fields()) == {docid: {"year": year} for docid, *_, year in DOCUMENTS}
    with pytest.raises(TourError, match="has no topics"):
        read_topics(f"{letters}/docs")
    with pytest.raises(TourError, match="knows no data set 'nothing'"):
        read_qrels("irds:nothing")


def test_without_a_network_one_sentence_says_so(tmp_path):
    away = {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "IR_DATASETS_DL_TRIES": "1"}
    own = {"IR_DATASETS_HOME": str(tmp_path / "home"), "TOUR_PYSERINI_CACHE": str(tmp_path / "cache"), **away}
    code = "from tour_pyserini import command\nfrom tour_pyserini.data.topics import read_topics\n"
    command = [sys.executable, "-c", f"{code}command.run(lambda _: read_topics('irds:cranfield'))"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "the topics of irds:cranfield cannot be had" in done.stderr.splitlines()[-1]
