"""Damaged JSON files in folders that commands continue or read: the message names the folder and the remedy."""

import numpy as np
import pytest
from index_commands import flags, write_corpus

from tour_pyserini.errors import TourError
from tour_pyserini.index import main as index
from tour_pyserini.phrases.phrase_index import ROW
from tour_pyserini.phrases.phrase_index_building import PartialTokens
from tour_pyserini.stores.index_folder import PartialVectors
from tour_pyserini.training.trainer import unfinished_training

VECTORS = {"dimension": 2, "chunk": 1, "documents": 3}
TOKENS = {"dimension": 2, "dtype": "float32", "itemsize": 4}
damaged = pytest.mark.parametrize("content", ["{", "[1]"])


def vectors(folder):
    with PartialVectors(folder, VECTORS) as partial:
        partial.append(["d0"], np.ones((1, 2), dtype=np.float32))


def tokens(folder):
    with PartialTokens(folder, TOKENS) as partial:
        partial.append(["d0"], np.zeros(1, dtype=ROW), np.ones((1, 2), dtype=np.float32))


def training(folder):
    with pytest.raises(KeyboardInterrupt), unfinished_training(folder, {"steps": 3}):
        (folder / "candidates.jsonl").write_text("[]\n")
        raise KeyboardInterrupt


@damaged
@pytest.mark.parametrize(
    ("make", "file", "again"),
    [
        (vectors, "settings.json", lambda folder: PartialVectors(folder, VECTORS)),
        (tokens, "chunks", lambda folder: PartialTokens(folder, TOKENS)),
        (training, "settings.json", lambda folder: unfinished_training(folder, {"steps": 3})),
    ],
)
def test_unfinished_work_is_refused_and_stays(tmp_path, content, make, file, again):
    make(tmp_path / "a")
    before = (tmp_path / "a" / file).read_text()
    (tmp_path / "a" / file).write_text(f"{content}\n")
    with pytest.raises(TourError, match=rf"{tmp_path}/a.* delete"), again(tmp_path / "a"):
        pass
    (tmp_path / "a" / file).write_text(before)
    with again(tmp_path / "a"):
        pass  # what was done is still there


@damaged
def test_the_record_of_an_index_whose_vectors_are_used(tiny, tmp_path, content):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 3)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tour-index.json").write_text(content)
    with pytest.raises(TourError, match=r"old.*choose other --vectors"):
        index(flags(tiny, corpus, tmp_path / "new", "--vectors", tmp_path / "old"))
    assert not (tmp_path / "new").exists()
