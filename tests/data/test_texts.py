"""Passages of corpora and of Lucene indexes."""

import copy
import gzip
import json
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.data import texts as texts_module
from tour_pyserini.data.texts import BeirTexts, LuceneTexts, Passage, UnknownDocument, open_texts
from tour_pyserini.errors import TourError

A = {"_id": "a", "title": "First", "text": "one"}
B = {"_id": "b", "title": "", "text": "two"}


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_file_and_its_folder_give_the_same_texts_and_a_mapping_is_returned_unchanged(tmp_path):
    write(tmp_path / "corpus.jsonl", [A, B])
    for spec in (tmp_path, tmp_path / "corpus.jsonl", str(tmp_path)):
        found = open_texts(spec)
        assert dict(found) == {"a": "First one", "b": "two"}
        assert [found[docid].parts for docid in "ab"] == [("First", "one"), ("", "two")]
        assert open_texts(found) is found


@pytest.mark.parametrize(
    "fields", [("_id", "text"), ("id", "contents"), ("docid", "text"), ("docid", "body"), ("pid", "passage")]
)
def test_other_field_names_and_integer_ids_are_read(tmp_path, fields):
    texts = BeirTexts(write(tmp_path / "c.jsonl", [dict(zip(fields, (7, "seven"), strict=True))]))
    assert texts["7"] == "seven"
    assert [document[:3] for document in texts.records()] == [("7", "", "seven")]


def test_a_folder_of_json_lines_is_one_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "2.jsonl.gz").write_bytes(gzip.compress(json.dumps(B).encode()))
    (folder / "1.jsonl").write_text(json.dumps(A))  # without a line end
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "why"}')
    assert dict(open_texts(folder)) == {"a": "First one", "b": "two"}
    write(folder / "1.jsonl", [A, {"_id": "c", "text": "three"}])
    assert list(open_texts(folder)) == ["a", "c", "b"]
    (folder / "2.jsonl.gz").unlink()
    assert open_texts(folder).plain == folder / "1.jsonl"  # one plain file is not copied


def test_ids_and_texts_of_ms_marco_are_read(tmp_path):
    (tmp_path / "collection.tsv").write_text("0\tThe presence of\tcommunication\n1\t" + "long " * 40_000 + "\r\n")
    texts = open_texts(tmp_path / "collection.tsv")
    assert texts["0"] == "The presence of\tcommunication" and texts["1"] == ("long " * 40_000).strip()


def test_the_wikipedia_of_dpr_is_read_as_its_csv_writer_quotes_it(tmp_path):
    path = tmp_path / "psgs_w100.tsv"
    path.write_text('id\ttext\ttitle\n1\t"a ""b""  c"\tAaron\n2\tplain\t"""Heroes"" (song)"\r\n')
    texts = open_texts(path)
    assert list(texts) == ["1", "2"]
    assert [texts[docid].parts for docid in texts] == [("Aaron", 'a "b"  c'), ('"Heroes" (song)', "plain")]
    assert [json.loads(line)["title"] for line, _ in texts.lines()] == ["Aaron", '"Heroes" (song)']


@settings(deadline=None)
@given(
    documents=st.dictionaries(st.text(min_size=1), st.tuples(st.text(), st.text()), min_size=1, max_size=20),
    ascii_only=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    last=st.sampled_from(["", "\n", "\r\n"]),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_every_document_is_read_back_unchanged(tmp_path_factory, documents, ascii_only, end, last, bom):
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    records = [{"_id": docid, "title": title, "text": text} for docid, (title, text) in documents.items()]
    lines = end.join(json.dumps(record, ensure_ascii=ascii_only) for record in records) + last
    path.write_bytes(bom + lines.encode())
    texts = BeirTexts(path)
    assert len(texts) == len(documents) and list(texts) == list(documents)
    assert [record[:3] for record in texts.records()] == [(docid, *both) for docid, both in documents.items()]
    assert dict(texts) == {docid: Passage(*both) for docid, both in documents.items()}


BEFORE = b'{"_id": "a", "text": "one"}\n{"_id": "b", "text": "two"}\n'


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("c.jsonl", BEFORE + b"{not json", r"c\.jsonl.*line 3 .*JSON"),
        ("c.jsonl", BEFORE + b'{"text": "x"}', r"c\.jsonl.*no id"),
        ("c.jsonl", BEFORE + b'{"_id": "a", "text": "x"}', r"c\.jsonl.*the id 'a' twice"),
        ("c.jsonl", BEFORE + b'{"_id": "c", "text": "caf\xe9"}', r"c\.jsonl.*UTF-8"),
        ("c.jsonl", BEFORE + b'{"_id": "c", "text": null}', r"c\.jsonl.*no text"),
        ("c.jsonl", b"", "no document"),
        ("c.tsv", b"0\ta\n1 b\n", "line 2 is not an id, a tab"),
        ("c.tsv", b"id\ttext\ttitle\n1\tno title\n", "line 2 is not an id, a text and a title"),
        ("c.jsonl.zip", b"x", "unpack"),
        ("folder", None, "neither"),
        ("nothing.jsonl", None, "not found"),
    ],
)
def test_refusals(tmp_path, name, content, word):
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TourError, match=word):
        open_texts(str(tmp_path / name))


def test_half_a_surrogate_pair_is_replaced_and_a_long_line_is_read(tmp_path):
    path = tmp_path / "c.jsonl"
    long = json.dumps({"_id": "long", "text": "word " * 20_000})
    path.write_text('{"_id": "a", "text": "x \\ud83d y \\ud83d\\ude00"}\n' + long + "\n" + json.dumps(B) + "\n")
    texts = BeirTexts(path)
    assert texts["a"] == "x � y \N{GRINNING FACE}"
    assert (texts["long"], texts["b"]) == ("word " * 20_000, "two")


def test_an_unknown_document_is_a_tour_error_and_a_key_error(tmp_path):
    texts = BeirTexts(write(tmp_path / "c.jsonl", [A]))
    for found, corpus in ((texts, r".*c\.jsonl"), (lucene_texts(None), "here")):
        assert "z" not in found and found.get("z") is None
        with pytest.raises(UnknownDocument, match=f"^document 'z' is not in {corpus}") as caught:
            found["z"]
        assert isinstance(caught.value, TourError) and isinstance(caught.value, KeyError)
    with pytest.raises(TourError, match="no text for document 'a'"):
        lucene_texts(None)["a"]


def test_a_file_that_changes_while_in_use_is_named(tmp_path):
    path = write(tmp_path / "c.jsonl", [A, B])
    texts = BeirTexts(path)
    path.write_text("x" * 200)
    with pytest.raises(TourError, match="changed while in use"):
        texts["a"]


def test_saved_offsets_are_used_while_file_and_offsets_are_unchanged(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(texts_module, "_SAVED_FROM_BYTES", 1)
    path = write(tmp_path / "c.jsonl", [A, B])
    assert list(BeirTexts(path)) == ["a", "b"]
    (file,) = (tmp_path / "cache" / "offsets").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(BeirTexts, "_scan", None)
        assert BeirTexts(path)["b"] == "two"
    for damage in (lambda raw: raw[:-9], lambda raw: raw[:-12] + b"\0" * 12, lambda raw: b""):
        file.write_bytes(damage(file.read_bytes()))
        assert BeirTexts(path)["a"] == "First one"
        assert len(np.load(file, allow_pickle=False)["starts"]) == 2
    write(path, [A, B])  # the same size
    os.utime(path, ns=(0, 0))
    assert BeirTexts(path)["a"] == "First one"
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path))  # a file, not a folder: nothing can be saved
    assert BeirTexts(path)["a"] == "First one"


def lucene_texts(raw, contents=None):
    """What Pyserini's searcher gives of an index of one document, a."""
    stored = SimpleNamespace(docid=lambda: "a", raw=lambda: raw, contents=lambda: contents)
    return LuceneTexts(SimpleNamespace(num_docs=1, doc=lambda key: stored if key in (0, "a") else None), "here")


HEROES = '"""Heroes"" (song)"\nA song.'


@pytest.mark.parametrize(
    ("raw", "contents", "expected", "parts"),
    [
        ('{"title": "T", "text": "x"}', None, "T x", ("T", "x")),
        (json.dumps({"contents": HEROES}), None, '"Heroes" (song)\nA song.', ('"Heroes" (song)', "A song.")),
        ('{"contents": "one line"}', None, "one line", None),
        ('{"other": 1}', "stored", "stored", None),
        ("plain text", None, "plain text", None),
        (None, "stored", "stored", None),
    ],
)
def test_a_stored_document_gives_its_passage(raw, contents, expected, parts):
    texts = lucene_texts(raw, contents)
    assert dict(texts) == {"a": expected}
    assert getattr(texts["a"], "parts", None) == parts


@given(st.text(max_size=12), st.text(max_size=12), st.sampled_from([" ", "\n"]))
def test_a_passage_is_a_string_that_knows_its_parts(title, text, between):
    passage = Passage(title, text, between)
    whole = f"{title}{between}{text}" if title and text else title + text
    assert (passage, hash(passage), passage.parts) == (whole, hash(whole), (title, text))
    assert {type(part) for part in (passage[:2], passage + "", *passage.parts)} == {str}
    for other in (pickle.loads(pickle.dumps(passage)), copy.deepcopy(passage)):
        assert (type(other), other, other.parts) == (Passage, passage, (title, text))
