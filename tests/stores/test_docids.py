"""Docids in one buffer, and the table of their positions."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.stores import docids as docids_module
from tour_pyserini.stores import positions as positions_module
from tour_pyserini.stores.docids import Docids, read_docids
from tour_pyserini.stores.positions import Positions, difference, hash_of, hashes_of, positions_of

NAMES = st.lists(st.text(alphabet="ab7é\u4e00\U0001f600 \n-", max_size=20), max_size=30)


@given(NAMES)
def test_they_are_a_sequence_of_the_same_strings(names):
    packed = Docids.of(names)
    assert list(packed) == names == packed[:]
    assert [packed[i] for i in range(-len(names), len(names))] == names + names
    assert packed == names and names == packed and packed == Docids.of(names)
    assert packed != [*names, "more"] and packed != Docids.of([*names, "more"])
    assert packed[1:9:2] == names[1:9:2] and packed[::-1] == names[::-1]
    with pytest.raises(IndexError):
        packed[len(names)]


def test_docids_that_differ_in_one_byte_or_in_their_ends_are_not_equal():
    assert Docids.of(["ab", "c"]) != Docids.of(["ab", "d"])
    assert Docids.of(["ab", "c"]) != Docids.of(["a", "bc"])
    assert Docids.of(["a\nb"]) != Docids.of(["a", "b"])


def test_a_copy_is_the_same(tmp_path):
    (tmp_path / "docid").write_text("a\nb\n")
    for packed in (Docids.of(["a", "b"]), read_docids(tmp_path / "docid")):
        assert copy.deepcopy(packed) == pickle.loads(pickle.dumps(packed)) == ["a", "b"]
        assert copy.deepcopy(Positions(packed))["b"] == 1


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("block", [1, 3, 1 << 24])
def test_a_file_is_read_block_by_block(tmp_path, monkeypatch, mapped, block):
    monkeypatch.setattr(docids_module, "_BYTES", block)
    monkeypatch.setattr(docids_module, "_BLOCK", min(block, 3))
    monkeypatch.setattr(docids_module, "MAPPED_FROM", 1 if mapped else 1 << 40)
    path = tmp_path / "docid"
    for names in (["d1", "d22", "é3", "d4"], ["d1", "d22", "d3", "d4"], ["x"]):
        for content in ("\n".join(names), "\n".join(names) + "\n", "".join(f"{name} \r\n" for name in names)):
            path.write_text(content, encoding="utf-8", newline="")
            assert list(read_docids(path)) == names
    path.write_bytes(b"")
    assert list(read_docids(path)) == []


@given(NAMES, NAMES)
def test_positions_are_those_of_a_dictionary(names, others):
    table, expected = Positions(Docids.of(names)), {name: i for i, name in enumerate(names)}
    assert dict(table) == expected == dict(positions_of(names)) and len(table) == len(expected)
    assert [table.get(name, -1) for name in others] == [expected.get(name, -1) for name in others]
    assert table.find(Docids.of(others)).tolist() == [expected.get(name, -1) for name in others]
    assert 7 not in table


@given(NAMES, NAMES)
def test_what_two_sets_of_docids_do_not_share_is_what_a_dictionary_says(names, others):
    """Of several, each names one: the table's order of equal docids is another than a dictionary's."""
    extra, missing = difference(Docids.of(others), positions_of(Docids.of(names)))
    assert (extra is None, missing is None) == (set(others) <= set(names), set(names) <= set(others))
    assert extra is None or extra in set(others) - set(names)
    assert missing is None or missing in set(names) - set(others)
    plain = difference(others, {name: i for i, name in enumerate(names)})
    assert [each is None for each in plain] == [extra is None, missing is None]


@given(NAMES)
def test_all_hashes_and_the_hash_of_one_docid_agree(names):
    assert hashes_of(Docids.of(names)).tolist() == [hash_of(name) for name in names]


def test_equal_docids_have_the_last_position_among_thousands():
    """So many that a sort which is not stable would mix them."""
    table = Positions(Docids.of([f"d{i % 100}" for i in range(5000)]))
    assert [table[f"d{i}"] for i in range(100)] == list(range(4900, 5000))


def test_docids_with_equal_hashes_are_told_apart(monkeypatch):
    monkeypatch.setattr(positions_module, "hashes_of", lambda docids: np.full(len(docids), 5, dtype=np.uint64))
    monkeypatch.setattr(positions_module, "hash_of", lambda docid: 5)
    table = Positions(Docids.of(["a", "bb", "c", "bb", ""]))
    assert [table.get(name) for name in ("a", "bb", "c", "", "d")] == [0, 3, 2, 4, None]
    assert table.find(Docids.of(["c", "d", "bb", "", "a"])).tolist() == [2, -1, 3, 4, 0]


def test_many_docids_are_found_in_any_order(monkeypatch):
    monkeypatch.setattr(positions_module, "_BLOCK", 64)
    names = [f"doc-{i * 37}" for i in range(1000)]
    table = Positions(Docids.of(names))
    assert table.find(Docids.of(names[::-1])).tolist() == list(range(1000))[::-1]
    assert len(set(hashes_of(Docids.of(names)).tolist())) == 1000


def test_the_same_docids_share_one_table():
    docids = Docids.of(["a", "b"])
    table = positions_of(docids)
    assert positions_of(docids) is table and positions_of(Docids.of(["b", "a"]))["a"] == 1
    assert table and not positions_of(Docids.of([]))
