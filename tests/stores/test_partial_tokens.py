"""The folder of token vectors of a phrase index that is being built."""

import os

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.phrases.index_writing import PartialTokens
from tour_pyserini.phrases.spans import ROW

SETTINGS = {"dimension": 2, "dtype": "float16", "itemsize": 2, "documents": 5, "corpus": "a"}


def chunk(first, count):
    rows = np.zeros(count, dtype=ROW)
    rows["passage"] = first
    return rows, np.full((count, 2), first, dtype=np.float16)


def three_chunks(folder):
    with PartialTokens(folder, SETTINGS) as tokens:
        tokens.append(["a", "b"], *chunk(1, 3))
        tokens.append(["c"], *chunk(2, 0))  # an empty passage
        tokens.append(["d"], *chunk(3, 2))
    return folder


def test_work_continues_after_the_last_chunk(tmp_path):
    with PartialTokens(three_chunks(tmp_path / "p"), SETTINGS) as tokens:
        assert (tokens.done, tokens.count) == (4, 5)
        tokens.append(["e"], *chunk(4, 1))
        assert tokens.vectors()[:, 0].tolist() == [1, 1, 1, 3, 3, 4]
    assert (tmp_path / "p" / "docid").read_text() == "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("file", "lost", "done", "count"),
    [("chunks", 1, 3, 3), ("vectors", 1, 3, 3), ("rows", 1, 3, 3), ("docid", 1, 3, 3), ("vectors", 17, 0, 0)],
)
def test_an_incomplete_chunk_is_removed(tmp_path, file, lost, done, count):
    path = three_chunks(tmp_path / "p") / file
    os.truncate(path, path.stat().st_size - lost)
    with PartialTokens(tmp_path / "p", SETTINGS) as tokens:
        assert (tokens.done, tokens.count) == (done, count)
        sizes = {name: (tmp_path / "p" / name).stat().st_size for name in ("vectors", "rows", "docid")}
        assert sizes == {"vectors": 4 * count, "rows": ROW.itemsize * count, "docid": 2 * done}
        tokens.append(["x"], *chunk(9, 1))
    with PartialTokens(tmp_path / "p", SETTINGS) as tokens:
        assert (tokens.done, tokens.count) == (done + 1, count + 1)


def test_other_settings_and_wrong_vectors_are_refused(tmp_path):
    three_chunks(tmp_path / "p")
    with pytest.raises(TourError, match="corpus was 'a', now 'b'"):
        PartialTokens(tmp_path / "p", {**SETTINGS, "corpus": "b"})
    with (
        PartialTokens(tmp_path / "p", SETTINGS) as tokens,
        pytest.raises(ValueError, match="are not the vectors of 1 tokens"),
    ):
        tokens.append(["x"], *(chunk(0, 1)[0], np.zeros((1, 2), dtype=np.float32)))


def test_a_folder_without_documents_is_removed(tmp_path):
    with PartialTokens(tmp_path / "p", SETTINGS):
        pass
    assert not list(tmp_path.iterdir())
