"""Index folders: files and checksums, settings in records, docids and their positions, folders that are being built."""

import copy
import fcntl
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_collection import ToyCollection

from tour_pyserini.data.run_records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.stores import index_folder
from tour_pyserini.stores.filters import positions_of
from tour_pyserini.stores.index_folder import Docids, IndexSettings, read_index_files
from tour_pyserini.support.files import sha256
from tour_pyserini.support.resumable import PartialFolder

SETTINGS = {"dimension": 2}
RECORD = {
    **{"encoder": "default", "encoder_fingerprint": "f", "encoder_class": None, "pooling": "mean", "l2_norm": True},
    **{"prefix": None, "max_length": 256, "fields": ["text"], "asked": {"truncate_dim": 8}},
}


def flip_a_bit(folder):
    record = {"sha256": {name: sha256(folder / name) for name in ("index", "docid")}}
    (folder / PASSAGE_INDEX).write_text(json.dumps(record))
    index, docids = read_index_files(folder)
    assert index.ntotal == len(docids) == 60
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
    folder = ToyCollection(tmp_path).folder
    damage(folder)
    with pytest.raises(TourError, match=word):
        read_index_files(folder)


def test_settings_are_those_of_the_record(tmp_path):
    assert IndexSettings.read(tmp_path) is None
    (tmp_path / PASSAGE_INDEX).write_text(json.dumps({"settings": RECORD}))
    made = IndexSettings.read(tmp_path)
    assert (made.encoder, made.fingerprint, made.asked, made.precision) == ("default", "f", {"truncate_dim": 8}, None)
    (tmp_path / PASSAGE_INDEX).write_text(json.dumps({"settings": {}}))
    with pytest.raises(TourError, match="does not describe an index"):
        IndexSettings.read(tmp_path)


def test_a_partial_folder_without_documents_accepts_other_settings(tmp_path):
    folder = tmp_path / "p"
    PartialFolder(folder, SETTINGS, "vectors").close()  # as a killed process leaves it
    (folder / "vectors").write_bytes(b"half a chunk")
    (folder / "docid").write_bytes(b"a\nb")
    with PartialFolder(folder, {"max_length": 8}, "vectors") as partial:
        assert partial.done == 0
        partial.append(["a", "b"], vectors=np.float32([[1], [2]]))
        assert partial.array("vectors", np.float32, 1).tolist() == [[1], [2]]


def test_a_partial_folder_that_another_process_removes_is_created_again(tmp_path, monkeypatch):
    folder = tmp_path / "p"
    first = PartialFolder(folder, SETTINGS, "vectors")
    lock = fcntl.flock

    def lock_when_the_owner_has_finished(*options):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.discard()
        lock(*options)

    monkeypatch.setattr(fcntl, "flock", lock_when_the_owner_has_finished)
    with PartialFolder(folder, SETTINGS, "vectors") as second:
        second.append(["a", "b"], vectors=np.float32([[1, 2], [3, 4]]))
    assert (folder / "docid").read_text() == "a\nb\n"
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


NAMES = st.lists(st.text(alphabet="ab7é\u4e00\U0001f600-", max_size=20), max_size=30)


@given(NAMES)
def test_they_are_a_sequence_of_the_same_strings(names):
    packed = Docids.of(names)
    assert list(packed) == names == packed[:]
    assert [packed[i] for i in range(-len(names), len(names))] == names + names
    assert packed == names and names == packed and packed == Docids.of(names)
    assert packed != [*names, "more"] and packed != Docids.of([*names, "more"])
    assert packed[1:9:2] == names[1:9:2]
    assert copy.deepcopy(packed) == pickle.loads(pickle.dumps(packed)) == names
    with pytest.raises(IndexError):
        packed[len(names)]


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("block", [1, 3])
def test_a_file_is_read_block_by_block(tmp_path, monkeypatch, mapped, block):
    monkeypatch.setattr(index_folder, "_BLOCK", block)
    monkeypatch.setattr(index_folder, "MAPPED_FROM", 1 if mapped else 1 << 40)
    path = tmp_path / "docid"
    for names in (["d1", "d22", "é3", "d4"], ["d1", "d22", "d3", "d4"], ["x"], []):
        for content in ("\n".join(names), "\n".join([*names, ""]), "".join(f"{name} \r\n" for name in names)):
            path.write_text(content if names else "", encoding="utf-8", newline="")
            assert list(Docids.read(path)) == names
            assert dict(Docids.read(path).positions) == {name: i for i, name in enumerate(names)}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"a\nb c\nd\n", "line 2"),
        (b"a\nb\n\xff\n", "UTF-8"),
        ("a\nb\u2028c\n".encode(), "white space"),
    ],
)
def test_docids_that_no_run_can_hold_are_refused(tmp_path, content, word):
    (tmp_path / "docid").write_bytes(content)
    with pytest.raises(TourError, match=word):
        Docids.read(tmp_path / "docid")


@given(NAMES, NAMES)
def test_positions_are_those_of_a_dictionary(names, others):
    table, expected = Docids.of(names).positions, {name: i for i, name in enumerate(names)}
    assert dict(table) == expected == dict(positions_of(names))
    assert [table.get(name, -1) for name in others] == [expected.get(name, -1) for name in others]
    assert 7 not in table


def test_equal_docids_and_equal_hashes(monkeypatch):
    assert Docids.of([f"doc-{i % 2500}" for i in range(5000)]).positions["doc-7"] == 2507
    monkeypatch.setattr(index_folder, "hash", lambda docid: 0, raising=False)
    table = Docids.of(["a", "bb", "c", "bb", ""]).positions
    assert [table.get(name) for name in ("a", "bb", "c", "", "d")] == [0, 3, 2, 4, None]
