"""Damaged JSON files in folders that commands continue: the message names the folder and the remedy."""

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import ROW
from tour_pyserini.phrases.phrase_index_building import PartialTokens
from tour_pyserini.stores.index_folder import PartialVectors
from tour_pyserini.training.trainer import unfinished_training

ONE = np.ones((1, 2), dtype=np.float32)
UNFINISHED = {
    "vectors": (
        lambda folder: PartialVectors(folder, {"dimension": 2, "chunk": 1, "documents": 3}),
        lambda partial: partial.append(["d0"], ONE),
    ),
    "tokens": (
        lambda folder: PartialTokens(folder, {"dimension": 2, "dtype": "float32", "itemsize": 4}),
        lambda partial: partial.append(["d0"], np.zeros(1, dtype=ROW), ONE),
    ),
    "training": (
        lambda folder: unfinished_training(folder, {"steps": 3}),
        lambda folder: (folder / "candidates.jsonl").write_text("[]\n"),
    ),
}


@pytest.mark.parametrize("content", ["{", "[1]"])
@pytest.mark.parametrize("name", UNFINISHED)
def test_unfinished_work_is_refused_and_stays(tmp_path, content, name):
    work, begin = UNFINISHED[name]
    with pytest.raises(KeyboardInterrupt), work(tmp_path / "a") as partial:
        begin(partial or tmp_path / "a")
        raise KeyboardInterrupt
    file = tmp_path / "a" / ("chunks" if name == "tokens" else "settings.json")
    before = file.read_text()
    file.write_text(f"{content}\n")
    with pytest.raises(TourError, match=rf"{tmp_path}/a.* delete"), work(tmp_path / "a"):
        pass
    file.write_text(before)
    with work(tmp_path / "a"):
        pass  # what was done is still there
