"""A damaged file in a folder that commands continue: the message names the folder and the remedy."""

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support.resumable import PartialFolder


@pytest.mark.parametrize("content", ["{", "[1]"])
@pytest.mark.parametrize("name", ["chunks", "settings.json"])
def test_unfinished_work_is_refused_and_stays(tmp_path, content, name):
    def work():
        return PartialFolder(tmp_path / "a", {"dimension": 2}, "vectors")

    with pytest.raises(KeyboardInterrupt), work() as partial:
        partial.append(["d0"], vectors=np.ones((1, 2)))
        raise KeyboardInterrupt
    file = tmp_path / "a" / name
    before = file.read_text()
    file.write_text(f"{content}\n")
    with pytest.raises(TourError, match=rf"{tmp_path}/a.* delete"):
        work()
    file.write_text(before)
    with work() as partial:
        assert partial.done == 1
