import os

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import check_place, replaced_whole, written_whole


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with written_whole(path) as file:
        file.write("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(RuntimeError), written_whole(path) as file:
        file.write("two")
        raise RuntimeError
    assert path.read_text() == "one"
    assert os.listdir(path.parent) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with written_whole(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["folder", "pipe", "file/x", "x" * 300])
def test_what_is_no_place_for_a_file_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for attempt in (check_place, lambda path: replaced_whole(path).__enter__()):
        with pytest.raises(TourError, match="cannot write"):
            attempt(tmp_path / name)


def test_trying_leaves_no_trace(tmp_path):
    check_place(tmp_path / "new" / "a.txt")
    assert list(tmp_path.iterdir()) == []
