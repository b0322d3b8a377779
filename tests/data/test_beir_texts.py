import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data import texts as texts_module
from tour_pyserini.data.documents import Passage, UnknownDocument
from tour_pyserini.data.texts import BeirTexts, open_texts
from tour_pyserini.errors import TourError

A = {"_id": "a", "title": "First", "text": "one"}
B = {"_id": "b", "title": "", "text": "two"}


def write(path, records, *, end="\n", last="\n", bom=b""):
    lines = end.join(json.dumps(record, ensure_ascii=False) for record in records)
    path.write_bytes(bom + (lines + last).encode())
    return path


@pytest.mark.parametrize(
    ("title", "text", "expected"), [("T", "x", "T x"), ("", "x", "x"), ("T", "", "T"), ("", "", "")]
)
def test_a_passage_is_title_space_text(title, text, expected):
    assert Passage(title, text) == expected


def test_a_file_and_its_folder_give_the_same_texts(tmp_path):
    write(tmp_path / "corpus.jsonl", [A, B])
    for spec in (tmp_path, tmp_path / "corpus.jsonl", str(tmp_path)):
        assert dict(open_texts(spec)) == {"a": "First one", "b": "two"}


def test_a_mapping_is_returned_unchanged():
    texts = {"a": "one"}
    assert open_texts(texts) is texts


@pytest.mark.parametrize("id_field", ["_id", "id", "docid"])
@pytest.mark.parametrize("text_field", ["text", "contents"])
def test_other_field_names_and_integer_ids_are_read(tmp_path, id_field, text_field):
    texts = BeirTexts(write(tmp_path / "c.jsonl", [{id_field: 7, text_field: "seven"}]))
    assert texts["7"] == "seven"
    assert list(texts.records()) == [("7", "", "seven")]


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
    assert len(texts) == len(documents)
    assert list(texts) == list(documents)
    assert [tuple(record) for record in texts.records()] == [(docid, *both) for docid, both in documents.items()]
    assert {docid: texts[docid] for docid in documents} == {docid: Passage(*both) for docid, both in documents.items()}


def test_a_line_longer_than_the_read_buffer_is_read(tmp_path):
    long = {"_id": "long", "text": "word " * 20_000}
    texts = BeirTexts(write(tmp_path / "c.jsonl", [A, long, B]))
    assert texts["long"] == long["text"]
    assert texts["b"] == "two"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"text": "x"}', "has no id"),
        ('{"_id": "", "text": "x"}', "has no id"),
        ('{"_id": true, "text": "x"}', "has no id"),
        ('{"_id": "c"}', "has no text"),
        ('{"_id": "c", "text": null}', "has no text"),
        ('{"_id": "c", "text": "x", "title": 3}', "title that is not a string"),
        ('{"_id": "a", "text": "x"}', "repeats the id 'a' of line 1"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_the_error_names_a_malformed_line(tmp_path, line, reason):
    path = tmp_path / "c.jsonl"
    path.write_text(f"{json.dumps(A)}\n\n{json.dumps(B)}\n{line}\n", encoding="utf-8")
    with pytest.raises(TourError, match=r"c\.jsonl, line 4 ") as caught:
        BeirTexts(path)
    assert reason in str(caught.value)


def test_the_error_names_a_line_that_is_not_utf8(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"_id": "a", "text": "x"}\n{"_id": "b", "text": "caf\xe9"}\n')
    with pytest.raises(TourError, match=r"line 2 is not UTF-8"):
        BeirTexts(path)


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_kept(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"_id": "a", "text": "x \\ud83d y \\ud83d\\ude00"}\n')
    text = BeirTexts(path)["a"]
    assert text == "x � y \N{GRINNING FACE}"
    text.encode()


def test_an_unknown_document_is_a_tour_error_and_a_key_error(tmp_path):
    texts = BeirTexts(write(tmp_path / "c.jsonl", [A]))
    assert "z" not in texts
    assert texts.get("z") is None
    with pytest.raises(UnknownDocument) as caught:
        texts["z"]
    assert isinstance(caught.value, TourError)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value).startswith("document 'z' is not in ")
    assert "c.jsonl" in str(caught.value)
    assert "same collection" in str(caught.value)


def test_documents_whose_ids_have_equal_hashes_are_distinguished(tmp_path, monkeypatch):
    monkeypatch.setattr(texts_module, "_hash", len)
    texts = BeirTexts(write(tmp_path / "c.jsonl", [A, B]))
    assert (texts["a"], texts["b"]) == ("First one", "two")
    assert "c" not in texts


def test_several_threads_can_read_at_the_same_time(tmp_path):
    records = [{"_id": f"d{i}", "text": f"text {i} " * (i % 50)} for i in range(500)]
    texts = BeirTexts(write(tmp_path / "c.jsonl", records))
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda record: texts[record["_id"]], records * 4))
    assert read == [record["text"] for record in records * 4]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A corpus whose offsets are saved, and the folder where they are saved."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(texts_module, "SAVED_FROM_BYTES", 1)
    return write(tmp_path / "c.jsonl", [A, B]), tmp_path / "cache" / "offsets"


def no_scan(self):
    raise AssertionError("scanned again")


def test_saved_offsets_are_used_instead_of_a_second_scan(saved, monkeypatch):
    path, folder = saved
    BeirTexts(path)
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(BeirTexts, "_scan", no_scan)
    assert BeirTexts(path)["b"] == "two"


def test_a_changed_file_is_scanned_again(saved):
    path, _ = saved
    BeirTexts(path)
    write(path, [B, A])  # the same size
    os.utime(path, ns=(0, 0))
    assert BeirTexts(path)["a"] == "First one"


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: raw[:-12] + b"\0" * 12, lambda raw: b""])
def test_damaged_offsets_are_replaced(saved, damage):
    path, folder = saved
    BeirTexts(path)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert BeirTexts(path)["a"] == "First one"
    assert np.load(file, allow_pickle=False).size == 6


def test_offsets_of_an_older_content_are_replaced(saved):
    path, folder = saved
    for records in ([A, B], [B], [B, A]):
        write(path, records)
        assert list(BeirTexts(path)) == [record["_id"] for record in records]
        assert len(list(folder.iterdir())) == 1


def test_offsets_of_a_file_that_changes_during_the_scan_are_not_saved(saved, monkeypatch):
    path, folder = saved
    collect = offsets.collect

    def replaced(documents):
        found = collect(documents)
        write(path.with_suffix(".new"), [B, A]).replace(path)  # the same size
        return found

    monkeypatch.setattr(offsets, "collect", replaced)
    BeirTexts(path)
    assert not folder.exists()
    monkeypatch.undo()
    assert BeirTexts(path)["b"] == "two"


def test_processes_that_open_a_corpus_at_once_all_read_it(tmp_path):
    path = write(tmp_path / "c.jsonl", [{"_id": f"d{i}", "text": f"text {i}"} for i in range(5000)])
    code = (
        "from tour_pyserini.data import texts; from tour_pyserini.data.texts import BeirTexts\n"
        "texts.SAVED_FROM_BYTES = 1\n"
        f"for _ in range(3): assert BeirTexts({str(path)!r})['d4999'] == 'text 4999'"
    )
    environment = {**os.environ, "TOUR_PYSERINI_CACHE": str(tmp_path / "cache")}
    processes = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list((tmp_path / "cache" / "offsets").iterdir())) == 1


def test_a_corpus_opens_without_a_writable_cache(saved, monkeypatch):
    path, _ = saved
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path))  # a file, not a folder
    assert BeirTexts(path)["a"] == "First one"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("corpus.jsonl", b"", "holds no document"),
        ("corpus.jsonl.zip", b"x", "unpack it first"),
        ("other/readme", b"x", "contains neither a corpus.jsonl nor a Lucene index"),
    ],
)
def test_a_path_that_is_not_a_corpus_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(TourError, match=message):
        open_texts(path if path.suffix else path.parent)


def test_a_missing_file_is_not_taken_for_a_prebuilt_index(tmp_path):
    with pytest.raises(TourError, match="corpus not found"):
        open_texts(str(tmp_path / "nothing"))
    with pytest.raises(TourError, match="corpus not found"):
        open_texts("missing.jsonl")


def test_real_collections_open(shared):
    texts = open_texts(shared / "collections" / "cacm")
    assert len(texts) == 3204
    assert texts["1"] == "Preliminary Report-International Algebraic Language"
