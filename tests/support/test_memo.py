"""Memos are used only for the state that they were computed from."""

import os

import pytest

from tour_pyserini.support import memo
from tour_pyserini.support.files import sha256
from tour_pyserini.support.memo import check_once, content_hash, read_memo, write_memo

OLD = 1_000_000_000  # seconds; long ago


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(memo, "_SMALL", 4)
    memo._hash.cache_clear()
    return tmp_path / "cache"


def test_a_memo_is_read_for_the_same_state_only():
    write_memo("kind", "name", [1, "a"], "value")
    assert read_memo("kind", "name", [1, "a"]) == "value"
    assert read_memo("kind", "name", [2, "a"]) is None
    assert read_memo("kind", "other", [1, "a"]) is None
    assert read_memo("other", "name", [1, "a"]) is None
    write_memo("kind", "name", [2, "a"], "new")
    assert read_memo("kind", "name", [2, "a"]) == "new"
    assert read_memo("kind", "name", [1, "a"]) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"what": "kind"}', "\x00"])
def test_a_damaged_file_is_as_good_as_none(cache, content):
    write_memo("kind", "name", [], "value")
    (file,) = (cache / "memos").iterdir()
    file.write_text(content)
    assert read_memo("kind", "name", []) is None


def test_a_cache_folder_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file"))
    write_memo("kind", "name", [], "value")
    assert read_memo("kind", "name", []) is None


def counted(monkeypatch):
    read = []
    monkeypatch.setattr(memo, "sha256", lambda path: read.append(path) or sha256(path))
    return read


def new_process():
    memo._hash.cache_clear()


def old_file(path, content):
    """A file whose times of change are long ago, for code that is told so."""
    path.write_text(content)
    os.utime(path, (OLD, OLD))
    return path


def test_an_unchanged_file_is_read_once(tmp_path, monkeypatch):
    path, read = old_file(tmp_path / "model", "weights"), counted(monkeypatch)
    monkeypatch.setattr(memo, "_RECENT", -(10**18))  # the inode was changed just now
    for _ in range(3):
        assert content_hash(path) == sha256(path)
        new_process()
    assert len(read) == 1
    assert content_hash(path, read_again=True) == sha256(path)
    assert len(read) == 2


def test_a_changed_file_is_read_again_even_with_its_old_time_of_change(tmp_path, monkeypatch):
    path = old_file(tmp_path / "model", "weights")
    monkeypatch.setattr(memo, "_RECENT", -(10**18))
    before = content_hash(path)
    old_file(path, "WEIGHTS")  # the same size and the same mtime; the ctime differs
    new_process()
    assert content_hash(path) == sha256(path) != before


def test_a_file_that_was_just_changed_has_no_memo(tmp_path, monkeypatch):
    path, read = tmp_path / "model", counted(monkeypatch)
    path.write_text("weights")
    for _ in range(2):
        content_hash(path)
        new_process()
    assert len(read) == 2


def test_a_check_is_repeated_only_after_a_change_or_a_failure(tmp_path):
    path, checked = tmp_path / "file", []
    path.write_text("content")
    os.utime(path, (OLD, OLD))

    def check(path):
        checked.append(path.read_text())
        if "bad" in checked[-1]:
            raise ValueError

    def times(**options):
        before = len(checked)
        check_once("kind", path, check, **options)
        return len(checked) - before

    # The time of the last change of the inode cannot be set: it was a moment ago.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memo, "_RECENT", -1)
        assert [times(), times(), times(version=2), times(version=2)] == [1, 0, 1, 0]
        path.write_text("another")
        assert [times(), times()] == [1, 0]
        path.write_text("is bad!")
        for _ in range(2):
            with pytest.raises(ValueError):
                times()
    path.write_text("changed")
    assert [times(), times()] == [1, 1]  # changed a moment ago, so that there is no memo
