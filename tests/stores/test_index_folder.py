"""Index folders: their files and checksums, the settings in their records, and folders that are being built."""

import fcntl
import json

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, ToyCollection

from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.stores.index_folder import (
    PartialVectors,
    check_vectors,
    read_index_files,
    read_index_settings,
)
from tour_pyserini.support.files import sha256

KINDS = ("Flat", "HNSW4", "PQ4x4", "SQ8", "IVF4,Flat", "IVF4,PQ4x4", "PCA4,Flat", "IVF4,PQ4x4fs", "RQ2x4")
SETTINGS = {"dimension": 2, "documents": 4, "chunk": 2}
RECORD = {
    **{"encoder": "default", "encoder_fingerprint": "f", "encoder_class": None, "pooling": "mean", "l2_norm": True},
    **{"prefix": None, "max_length": 256, "fields": ["text"], "asked": {"truncate_dim": 8}},
}


def built(tmp_path, kind="Flat"):
    return ToyCollection(tmp_path, index=faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT)).folder


@pytest.mark.parametrize("kind", KINDS)
def test_what_faiss_writes_is_read(tmp_path, kind):
    index, docids = read_index_files(built(tmp_path, kind), PASSAGE_INDEX)
    assert index.ntotal == len(docids) == 60


def flip_a_bit(folder):
    record = {"sha256": {name: sha256(folder / name) for name in ("index", "docid")}}
    (folder / PASSAGE_INDEX).write_text(json.dumps(record))
    read_index_files(folder, PASSAGE_INDEX)
    raw = bytearray((folder / "index").read_bytes())
    raw[-3] ^= 1  # of a number: FAISS would read it
    (folder / "index").write_bytes(raw)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (flip_a_bit, "checksum"),
        (lambda folder: (folder / PASSAGE_INDEX).write_text("[]"), "does not describe an index"),
        (lambda folder: (folder / "docid").write_text("d1\n"), "1 lines for the 60 vectors"),
        (lambda folder: (folder / "index").write_bytes(b"IxFI"), "cannot be read as a FAISS index"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, damage, word):
    folder = built(tmp_path)
    damage(folder)
    with pytest.raises(TourError, match=word):
        read_index_files(folder, PASSAGE_INDEX)


def recorded(folder, settings):
    folder.mkdir()
    (folder / PASSAGE_INDEX).write_text(json.dumps({"settings": settings}))
    return folder


def test_settings_are_those_of_the_record(tmp_path):
    made = read_index_settings(recorded(tmp_path / "new", RECORD))
    assert (made.encoder, made.fingerprint, made.asked, made.precision) == ("default", "f", {"truncate_dim": 8}, None)
    old = {name: value for name, value in RECORD.items() if name != "asked"}
    assert read_index_settings(recorded(tmp_path / "old", old)).asked == {}
    auto = read_index_settings(recorded(tmp_path / "auto", {**old, "encoder_class": "AutoDocumentEncoder"}))
    assert (auto.encoder_class, auto.asked) == (None, {"pooling": "mean", "l2_norm": True})
    assert read_index_settings(tmp_path) is None


@pytest.mark.parametrize("settings", [None, [], {}])
def test_a_record_that_does_not_describe_an_index_is_refused(tmp_path, settings):
    with pytest.raises(TourError, match="does not describe an index"):
        read_index_settings(recorded(tmp_path / "index", settings))


def test_vectors_of_another_encoder_are_refused(tmp_path):
    index, other = recorded(tmp_path / "a", RECORD), recorded(tmp_path / "b", {**RECORD, "encoder_fingerprint": "g"})
    check_vectors(index, str(index))
    check_vectors(index, str(tmp_path / "no record"))
    for vectors, word in ((str(other), "same encoder"), ("", "--vectors is empty")):
        with pytest.raises(TourError, match=word):
            check_vectors(index, vectors)


def test_a_partial_folder_without_documents_accepts_other_settings(tmp_path):
    folder = tmp_path / "p"
    PartialVectors(folder, SETTINGS).close()  # as a killed process leaves it
    (folder / "vectors").write_bytes(b"half a chunk")
    (folder / "docid").write_bytes(b"a\nb")
    with PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 8}) as partial:
        assert partial.done == 0
        partial.append(["a", "b"], np.float32([[1], [2]]))
        assert partial.vectors().tolist() == [[1], [2]]
    with pytest.raises(TourError, match="max_length was 8, now 9"):
        PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 9})
    with open(folder / "docid", "a") as docids, open(folder / "vectors", "ab") as vectors:
        docids.write("c\nd")  # killed within the second chunk
        vectors.write(b"1234")
    with PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 8}) as partial:  # no lock is left
        assert partial.done == 2


def test_a_partial_folder_that_another_process_removes_is_created_again(tmp_path, monkeypatch):
    folder = tmp_path / "p"
    first = PartialVectors(folder, SETTINGS)
    lock = fcntl.flock

    def lock_when_the_owner_has_finished(*options):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.discard()
        lock(*options)

    monkeypatch.setattr(fcntl, "flock", lock_when_the_owner_has_finished)
    with PartialVectors(folder, SETTINGS) as second:
        second.append(["a", "b"], np.float32([[1, 2], [3, 4]]))
    assert (folder / "docid").read_text() == "a\nb\n"
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
