"""Docids in one buffer, the file they are read from, and the table of their positions."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.stores import index_folder
from tour_pyserini.stores.index_folder import Docids, difference, positions_of, read_docids

NAMES = st.lists(st.text(alphabet="ab7é\u4e00\U0001f600-", max_size=20), max_size=30)


@given(NAMES)
def test_they_are_a_sequence_of_the_same_strings(names):
    packed = Docids.of(names)
    assert list(packed) == names == packed[:]
    assert [packed[i] for i in range(-len(names), len(names))] == names + names
    assert packed == names and names == packed and packed == Docids.of(names)
    assert packed != [*names, "more"] and packed != Docids.of([*names, "more"])
    assert packed[1:9:2] == names[1:9:2] and packed[::-1] == names[::-1]
    assert copy.deepcopy(packed) == pickle.loads(pickle.dumps(packed)) == names
    with pytest.raises(IndexError):
        packed[len(names)]


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("block", [1, 3, 1 << 24])
def test_a_file_is_read_block_by_block(tmp_path, monkeypatch, mapped, block):
    monkeypatch.setattr(index_folder, "_BYTES", block)
    monkeypatch.setattr(index_folder, "_BLOCK", min(block, 3))
    monkeypatch.setattr(index_folder, "MAPPED_FROM", 1 if mapped else 1 << 40)
    path = tmp_path / "docid"
    for names in (["d1", "d22", "é3", "d4"], ["d1", "d22", "d3", "d4"], ["x"], []):
        for content in ("\n".join(names), "\n".join([*names, ""]), "".join(f"{name} \r\n" for name in names)):
            path.write_text(content if names else "", encoding="utf-8", newline="")
            assert list(read_docids(path)) == names
            assert dict(read_docids(path).positions) == {name: i for i, name in enumerate(names)}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"a\nb c\nd\n", "line 2"),
        (b"a\n\nd\n", "line 2"),
        (b"a\nb\n\xff\n", "UTF-8"),
        ("a\nb\u2028c\n".encode(), "white space"),
        (None, "cannot read"),
    ],
)
def test_docids_that_no_run_can_hold_are_refused(tmp_path, content, word):
    if content is not None:
        (tmp_path / "docid").write_bytes(content)
    with pytest.raises(TourError, match=word):
        read_docids(tmp_path / "docid")


@given(NAMES, NAMES)
def test_positions_are_those_of_a_dictionary(names, others):
    table, expected = Docids.of(names).positions, {name: i for i, name in enumerate(names)}
    assert dict(table) == expected == dict(positions_of(names)) and len(table) == len(expected)
    assert bool(table) == bool(names)
    assert [table.get(name, -1) for name in others] == [expected.get(name, -1) for name in others]
    assert 7 not in table


@given(NAMES, NAMES)
def test_what_two_sets_of_docids_do_not_share_is_what_a_dictionary_says(names, others):
    extra, missing = difference(Docids.of(others), positions_of(Docids.of(names)))
    assert (extra is None, missing is None) == (set(others) <= set(names), set(names) <= set(others))
    assert extra is None or extra in set(others) - set(names)
    assert missing is None or missing in set(names) - set(others)
    plain = difference(others, {name: i for i, name in enumerate(names)})
    assert [each is None for each in plain] == [extra is None, missing is None]


def test_equal_docids_and_equal_hashes(monkeypatch):
    names = [f"doc-{i % 2500}" for i in range(5000)]
    assert Docids.of(names).positions["doc-7"] == 2507
    monkeypatch.setattr(index_folder, "hash", lambda docid: 0, raising=False)
    table = Docids.of(["a", "bb", "c", "bb", ""]).positions
    assert [table.get(name) for name in ("a", "bb", "c", "", "d")] == [0, 3, 2, 4, None]
