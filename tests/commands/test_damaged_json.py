"""Damaged JSON files in folders that commands continue or read: one sentence that says what is damaged.

A command that raises a TourError prints it and leaves with exit code 2 (test_command_endings.py).
"""

import json

import numpy as np
import pytest
from index_commands import flags, write_corpus

from tour_pyserini.errors import TourError
from tour_pyserini.index import main as index
from tour_pyserini.phrases.phrase_index import ROW
from tour_pyserini.phrases.phrase_index_building import PartialTokens
from tour_pyserini.stores.index_folder import PartialVectors
from tour_pyserini.training.trainer import Checkpoints

DAMAGED = ["", "{", "[" * 100_000, '"text"', "[1]", "null"]


def refused(work, *parts):
    """Whether the work is refused in one sentence that has these parts."""
    with pytest.raises(TourError) as error:
        work()
    said = str(error.value)
    assert "\n" not in said and len(said) < 600
    return all(str(part) in said for part in parts)


@pytest.mark.parametrize("content", DAMAGED)
def test_the_record_of_an_index_whose_vectors_are_used(tiny, tmp_path, content):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 3)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tour-index.json").write_text(content)
    words = flags(tiny, corpus, tmp_path / "new", "--vectors", tmp_path / "old")
    assert refused(lambda: index(words), tmp_path / "old", "choose other --vectors")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [*DAMAGED, '{"dimension": Infinity, "chunk": 1, "documents": 1}'])
def test_the_settings_of_unfinished_vectors(tmp_path, content):
    settings = {"dimension": 2, "chunk": 1, "documents": 3}
    with PartialVectors(tmp_path / "a", settings) as partial:
        partial.append(["d0"], np.ones((1, 2), dtype=np.float32))
    (tmp_path / "a" / "settings.json").write_text(content)
    assert refused(lambda: PartialVectors(tmp_path / "a", settings), tmp_path / "a", "delete")
    (tmp_path / "a" / "settings.json").write_text(json.dumps(settings))
    with PartialVectors(tmp_path / "a", settings) as partial:
        assert partial.done == 1, "what was encoded is still there"


@pytest.mark.parametrize("content", [*DAMAGED[1:], "[1, 2, 3]", '["a", "b"]'])
def test_the_chunks_of_unfinished_tokens(tmp_path, content):
    settings = {"dimension": 2, "dtype": "float32", "itemsize": 4}
    with PartialTokens(tmp_path / "a", settings) as partial:
        partial.append(["d0"], np.zeros(1, dtype=ROW), np.ones((1, 2), dtype=np.float32))
    (tmp_path / "a" / "chunks").write_text(f"{content}\n")
    assert refused(lambda: PartialTokens(tmp_path / "a", settings), tmp_path / "a", "delete the folder")


@pytest.mark.parametrize("content", DAMAGED)
def test_the_settings_of_an_unfinished_training(tmp_path, content):
    with Checkpoints(tmp_path / "a", {"steps": 3}) as state:
        (state.folder / "candidates.jsonl").write_text("[]\n")
    (tmp_path / "a" / "settings.json").write_text(content)
    assert refused(lambda: Checkpoints(tmp_path / "a", {"steps": 3}), tmp_path / "a" / "settings.json", "delete")
