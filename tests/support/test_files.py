import os

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace, atomic_write, check_writable


def test_a_file_is_written_only_if_the_block_succeeds(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with atomic_write(path) as file:
        file.write("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write("two")
        raise RuntimeError
    assert path.read_text() == "one"
    assert os.listdir(path.parent) == ["a.txt"]


def test_a_symbolic_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["folder", "pipe", "file/x", "x" * 300])
def test_a_path_that_cannot_be_written_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for attempt in (check_writable, lambda path: atomic_replace(path).__enter__()):
        with pytest.raises(TourError, match="cannot write"):
            attempt(tmp_path / name)


def test_check_writable_leaves_no_file_or_folder(tmp_path):
    check_writable(tmp_path / "new" / "a.txt")
    assert list(tmp_path.iterdir()) == []
