"""Which model each score in a file belongs to, and files of earlier layouts: without models, without checksums."""

import sqlite3

import numpy as np
import pytest
from score_files import write_layout_1, write_layout_2

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores
from tour_pyserini.rerankers.sqlite_scores import SCORES
from tour_pyserini.support.sqlite_cache import rows_by_model, verify

PAIRS = [("who", f"passage {number}") for number in range(2000)]


class Named:
    def __init__(self, name, fingerprint=None):
        self.name, self.fingerprint = name, fingerprint or f"print of {name}"

    def predict(self, pairs):
        return np.array([len(passage) + 0.25 for _, passage in pairs])


class Raises(Named):
    def predict(self, pairs):
        raise AssertionError(f"asked for {len(pairs)}")


def held(path):
    return {use.name: use.rows for use in rows_by_model(SCORES, path)}


def test_scores_are_counted_by_model(tmp_path):
    path = tmp_path / "scores"
    with CachedReranker(Named("a"), path) as a, CachedReranker(Named("b"), path) as b:
        a.predict(PAIRS[:30])
        b.predict(PAIRS[:20])
        a.predict(PAIRS[:40])
    assert held(path) == {"a": 40, "b": 20}
    with CachedReranker(Named("renamed", "print of a"), path) as renamed:
        renamed.predict(PAIRS[:5])
    assert held(path) == {"renamed": 40, "b": 20}
    assert {use.fingerprint for use in rows_by_model(SCORES, path)} == {"print of a", "print of b"}


def test_a_file_of_layout_1_keeps_every_score(tmp_path):
    path = tmp_path / "scores"
    expected = write_layout_1(path, PAIRS, "print of a")
    with CachedReranker(Raises("a"), path) as cached:
        assert cached.stats().scores == len(PAIRS)
        assert held(path) == {"": 2000, "a": 0}
        # The model of a score is recorded when a re-ranker asks for it.
        assert cached.predict(PAIRS[:1500]).tolist() == expected[:1500]
        assert held(path) == {"": 500, "a": 1500}
        assert cached.predict(PAIRS).tolist() == expected
    assert held(path) == {"a": 2000}
    assert verify(SCORES, path) == 2000


def test_a_file_of_layout_2_keeps_every_score_and_gets_checksums(tmp_path):
    path = tmp_path / "scores"
    expected = write_layout_2(path, PAIRS, "print of a")
    with CachedReranker(Raises("a"), path) as cached:
        assert cached.predict(PAIRS).tolist() == expected
    assert held(path) == {"a": 2000}
    assert verify(SCORES, path) == 2000
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE scores SET logit = logit + 1 WHERE logit < 10")
    connection.close()
    with pytest.raises(TourError, match="scores with a wrong checksum"):
        verify(SCORES, path)


def test_a_file_of_layout_1_takes_scores_of_another_model(tmp_path):
    path = tmp_path / "scores"
    write_layout_1(path, PAIRS[:10], "print of a")
    with CachedReranker(Named("b"), path) as cached:
        cached.predict(PAIRS[:10])
    assert held(path) == {"": 10, "b": 10}


def test_scores_stored_without_a_model_belong_to_the_unknown_model(tmp_path):
    with SqliteScores(tmp_path / "scores") as store:
        store.put({b"k" * 16: 1.0})
        assert store.get([b"k" * 16]) == {b"k" * 16: 1.0}
    assert held(tmp_path / "scores") == {"": 1}


def test_the_file_that_replaces_a_damaged_one_records_the_model(tmp_path):
    path = tmp_path / "scores"
    with CachedReranker(Named("a"), path) as cached:
        cached.predict(PAIRS)
    with CachedReranker(Named("a"), path) as cached:
        content = path.read_bytes()
        path.write_bytes(content[:4096] + bytes(len(content) - 4096))
        cached.predict(PAIRS[:7])
    assert held(path) == {"a": 7}
