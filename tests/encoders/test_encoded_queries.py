"""Pyserini's encoded queries: writing, reading, and refusing unsafe files."""

import os
import pickle

import numpy as np
import pandas
import pytest

from tour_pyserini.encoders.encoded_queries import load_encoded_queries, write_encoded_queries
from tour_pyserini.errors import TourError


def test_written_queries_are_read_by_pyserini_and_by_this_package(tmp_path):
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_encoded_queries(tmp_path / "queries", ["1", "2"], ["one", "two"], vectors)
    from pyserini.encode import QueryEncoder

    for encoder in (QueryEncoder(str(tmp_path / "queries")), load_encoded_queries(tmp_path / "queries")):
        assert np.array_equal(encoder.encode("two"), vectors[1])


@pytest.mark.parametrize("values", [[[1.0, 2.0]], [np.array([1.0, 2.0])], [np.float64(1.0)]])
def test_vectors_may_be_lists_or_arrays(tmp_path, values):
    frame = pandas.DataFrame({"id": [7], "text": pandas.Series(["one"], dtype=object), "embedding": values})
    frame.to_pickle(tmp_path / "embedding.pkl")
    assert np.array_equal(load_encoded_queries(tmp_path).encode("one"), values[0])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


def test_a_pickle_with_code_is_refused_and_the_code_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedding.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(TourError, match=r"embedding\.pkl asks for posix\.mkdir"):
        load_encoded_queries(tmp_path)
    assert not (tmp_path / "made-by-a-pickle").exists()


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2])])
def test_files_that_are_not_tables_are_refused(tmp_path, content):
    (tmp_path / "embedding.pkl").write_bytes(content)
    with pytest.raises(TourError, match=r"embedding\.pkl"):
        load_encoded_queries(tmp_path)
