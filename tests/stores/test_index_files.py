"""Damaged index folders are refused before FAISS reads them."""

import contextlib
import json
import os
from pathlib import Path

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, ToyCollection

from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.stores import faiss_trial
from tour_pyserini.stores.docids import read_docids
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.faiss_layout import check_layout
from tour_pyserini.stores.index_files import read_index_files
from tour_pyserini.support.files import sha256

KINDS = ("Flat", "HNSW4", "HNSW4,SQ8", "PQ4x4", "SQ8", "SQfp16", "IVF4,Flat", "IVF4,PQ4x4", "IVF4,SQ8", "PCA4,Flat")

UNKNOWN = ("IVF4,PQ4x4fs", "PQ4x4fs", "RQ2x4", "ITQ8,Flat", "IVF4,RQ2x4")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def built(tmp_path, kind="Flat"):
    return ToyCollection(tmp_path, index=faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT)).folder


def edit(path, old, new, *, at=0):
    raw = path.read_bytes()
    assert old in raw[at:]
    path.write_bytes(raw[:at] + raw[at:].replace(old, new, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_what_faiss_writes_is_read(tmp_path, kind):
    index, docids = read_index_files(built(tmp_path, kind), PASSAGE_INDEX)
    assert index.ntotal == len(docids) == 60


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_length_is_refused(tmp_path, kind):
    path = built(tmp_path, kind) / "index"
    raw = path.read_bytes()
    for damaged in (raw[:-1], raw[: len(raw) // 2], raw + b"\0", raw[:40], b"", b"IxFI"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            check_layout(path)


@pytest.mark.parametrize("count", [61, 2**31, 2**40, 2**62, -1])
def test_a_number_of_vectors_that_lies_is_refused(tmp_path, count):
    folder = built(tmp_path)
    edit(folder / "index", (60).to_bytes(8, "little"), count.to_bytes(8, "little", signed=True), at=8)
    with pytest.raises(TourError, match=r"cannot be read as a FAISS index: .*; build it again"):
        read_index_files(folder, PASSAGE_INDEX)


def test_links_of_a_graph_must_exist(tmp_path):
    index = faiss.index_factory(DIMENSION, "HNSW4", faiss.METRIC_INNER_PRODUCT)
    index.add(ToyCollection(tmp_path).vectors)
    path = tmp_path / "index" / "index"
    faiss.write_index(index, str(path))
    link = faiss.vector_to_array(index.hnsw.neighbors)[:4].astype("<i4").tobytes()
    edit(path, link, (10**6).to_bytes(4, "little") + link[4:])
    with pytest.raises(ValueError, match="links of its graph"):
        check_layout(path)


def test_lists_in_another_file_are_not_opened(tmp_path):
    path = built(tmp_path, "IVF4,Flat") / "index"
    edit(path, b"ilar", b"ilod")
    with pytest.raises(ValueError, match="another file"):
        check_layout(path)


def test_an_unknown_kind_is_named(tmp_path):
    path = built(tmp_path) / "index"
    edit(path, b"IxFI", b"IxZZ")
    with pytest.raises(ValueError, match="of a kind 'IxZZ' that is not known here"):
        check_layout(path)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_index_of_an_unknown_kind_is_read_after_a_trial(tmp_path, kind, caplog):
    collection = ToyCollection(tmp_path, index=faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT))
    index, docids = read_index_files(collection.folder, PASSAGE_INDEX)
    assert index.ntotal == len(docids) == 60 and "is first read on trial by another process" in caplog.text
    found = FaissIndex(index).search(collection.vectors[:3], 5)
    expected = faiss.read_index(str(collection.folder / "index")).search(collection.vectors[:3], 5)
    np.testing.assert_array_equal(found.ids, expected[1])


def test_an_unknown_kind_that_ends_faiss_is_refused(tmp_path):
    folder = built(tmp_path, UNKNOWN[0])
    path = folder / "index"
    raw = path.read_bytes()
    for position in range(37, 200, 54):  # lengths and sizes
        path.write_bytes(raw[:position] + b"\xff\xff\xff\x3f\0\0" + raw[position + 6 :])
        with contextlib.suppress(TourError):  # here: neither a crash nor an error of another type
            read_index_files(folder, PASSAGE_INDEX)
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(TourError, match="FAISS refuses it; build it again"):
        read_index_files(folder, PASSAGE_INDEX)


@pytest.mark.parametrize(
    ("program", "message"), [("import os; os.abort()", "FAISS ends"), ("while True: pass", "takes too long")]
)
def test_a_trial_that_crashes_or_does_not_end_is_a_refusal(tmp_path, monkeypatch, program, message):
    monkeypatch.setattr(faiss_trial, "_PROGRAM", program)
    monkeypatch.setattr(faiss_trial, "_SECONDS", 0.1)
    with pytest.raises(TourError, match=message):
        read_index_files(built(tmp_path, UNKNOWN[0]), PASSAGE_INDEX)


def test_more_probes_than_lists_are_allowed(tmp_path):
    index = faiss.index_factory(DIMENSION, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = 100
    read_index_files(ToyCollection(tmp_path, index=index).folder, PASSAGE_INDEX)


@pytest.mark.parametrize("kind", ["Flat", "HNSW4", "IVF4,Flat"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_numbers_are_refused(tmp_path, kind, value):
    collection = ToyCollection(tmp_path)
    vectors = collection.vectors.copy()
    index = faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    vectors[7, 3] = value
    index.add(vectors)
    faiss.write_index(index, str(collection.folder / "index"))
    with pytest.raises(TourError, match=r"NaN or infinity|instead of 60"):
        read_index_files(collection.folder, PASSAGE_INDEX)


def test_an_index_in_memory_with_nan_is_refused_when_it_is_searched(tmp_path):
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(np.full((3, DIMENSION), np.nan, dtype=np.float32))
    with pytest.raises(TourError, match="NaN"):
        FaissIndex(index).search(np.ones((1, DIMENSION), dtype=np.float32), 2)


def test_one_flipped_bit_is_noticed_by_the_checksum(tmp_path):
    folder = built(tmp_path)
    record = {"sha256": {name: sha256(folder / name) for name in ("index", "docid")}}
    (folder / PASSAGE_INDEX).write_text(json.dumps(record))
    read_index_files(folder, PASSAGE_INDEX)
    raw = bytearray((folder / "index").read_bytes())
    raw[-3] ^= 1  # of a number: the layout is still valid
    (folder / "index").write_bytes(raw)
    check_layout(folder / "index")
    with pytest.raises(TourError, match=r"does not have the checksum in tour-index\.json; build the index again"):
        read_index_files(folder, PASSAGE_INDEX)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)])
def test_a_record_that_is_no_file_is_refused(tmp_path, make):
    folder = built(tmp_path)
    make(folder / PASSAGE_INDEX)
    with pytest.raises(TourError, match=r"tour-index\.json is not a file that describes an index"):
        read_index_files(folder, PASSAGE_INDEX)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb c\nd\n", "docid, line 2 has white space in the docid 'b c'"),
        (b"a\n\nd\n", "docid, line 2 has no docid"),
        (b"a\nb\n\xff\n", "docid, line 3 is not UTF-8"),
        ("a\nb\u2028c\n".encode(), "docid, line 2 has white space"),
    ],
)
def test_docids_that_no_run_can_hold_are_refused(tmp_path, content, message):
    (tmp_path / "docid").write_bytes(content)
    with pytest.raises(TourError, match=message):
        read_docids(tmp_path / "docid")


@pytest.mark.parametrize("content", [b"a\nb\n", b"a\nb", b"a\r\nb \r\n"])
def test_line_ends_do_not_matter(tmp_path, content):
    (tmp_path / "docid").write_bytes(content)
    assert read_docids(tmp_path / "docid") == ["a", "b"]
