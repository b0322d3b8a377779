"""The score cache: what is scored and what is looked up; its file: exact values, models, damage, killed processes."""

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores
from tour_pyserini.rerankers import score_cache as cache_module
from tour_pyserini.rerankers.score_cache import pair_key

ROOT = Path(__file__).parents[2]
TEXTS = st.text(max_size=8)
PAIRS = [(str(number), str(number % 7)) for number in range(1200)]

WRITER = """
import sys
from test_score_cache import CachedReranker, Sums
path, first, last, step = sys.argv[1], *map(int, sys.argv[2:])
cached = CachedReranker(Sums(), path)
for start in range(first, last, step):
    cached.predict([(str(number), str(number % 7)) for number in range(start, start + step)])
    print(start + step, flush=True)
"""


class Sums:
    """Scores a pair of numbers, and records the pairs it was asked for."""

    def __init__(self, fingerprint="sums", name="sums"):
        self.fingerprint, self.name = fingerprint, name
        self.asked = []

    def predict(self, pairs):
        self.asked.extend(pairs)
        return np.array([float(query) * 1.5 + float(passage) for query, passage in pairs])


class Raises(Sums):
    def predict(self, pairs):
        raise AssertionError(f"{len(pairs)} scores were lost, such as that of {pairs[0]}")


class InParts(Sums):
    """Yields the scores of single pairs, last first; `between` is called between two of them."""

    def __init__(self, between):
        super().__init__()
        self.between = between

    def predict_parts(self, pairs):
        for count, position in enumerate(reversed(range(len(pairs)))):
            self.between(count)
            yield np.array([position]), Sums().predict([pairs[position]])


EXPECTED = Sums().predict(PAIRS).tolist()


def models_of(path):
    with SqliteScores(path) as store:
        return {use.name: use.rows for use in store.models()}


def test_only_new_pairs_are_scored_and_repetitions_once(tmp_path):
    inner = Sums()
    with CachedReranker(inner, tmp_path / "scores") as cached:
        cached.predict(PAIRS[:1])
        cached.predict([PAIRS[1], PAIRS[0], PAIRS[1], PAIRS[2]])
        assert inner.asked == PAIRS[:3]
        assert cached.predict(PAIRS).tolist() == EXPECTED
    with CachedReranker(Raises(), tmp_path / "scores") as again:
        assert again.predict(PAIRS[::-1]).tolist() == EXPECTED[::-1]
        assert again.predict([]).shape == (0,)
        assert np.isnan(again.lookup([PAIRS[0], ("7", "6")])).tolist() == [False, True]


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_keys_are_equal_only_for_equal_texts(one, other):
    assert (pair_key(*one) == pair_key(*other)) == (one == other)


def test_keys_are_those_of_earlier_versions():
    assert pair_key("m", "ab", "c").hex() == "adda1f43c179268308b021f1033dde7b"
    texts = [("m", "ab", "c"), ("m", "a", "bc"), ("ma", "b", "c"), ("m", "\ud800", ""), ("m", "\ud801", "")]
    assert len({pair_key(*one) for one in texts}) == 5


def test_bad_scores_are_not_stored_but_those_before_them_are(tmp_path):
    class Fails(Sums):
        def predict(self, pairs):
            return np.where([pair == PAIRS[70] for pair in pairs], np.nan, super().predict(pairs))

    with CachedReranker(Fails(), tmp_path / "scores") as cached, pytest.raises(TourError, match="nan"):
        cached.predict(PAIRS[:100])
    assert models_of(tmp_path / "scores") == {"sums": 64}  # two calls with 32 pairs


def test_scores_are_written_while_others_are_computed(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(cache_module.time, "monotonic", lambda: clock[0])
    stored = []

    def look(_):
        clock[0] += 1 / 8
        with SqliteScores(tmp_path / "scores") as store:
            stored.append(store.count())

    with CachedReranker(InParts(look), tmp_path / "scores") as cached:
        assert cached.predict(PAIRS[:40]).tolist() == EXPECTED[:40]
    assert stored == [count // 8 * 8 for count in range(40)]


def test_an_interruption_loses_no_score_that_was_computed(tmp_path):
    def stop(count):
        if count == 30:
            raise KeyboardInterrupt

    with CachedReranker(InParts(stop), tmp_path / "scores") as cached, pytest.raises(KeyboardInterrupt):
        cached.predict(PAIRS[:40])
    assert models_of(tmp_path / "scores") == {"sums": 30}


def test_threads_that_share_a_cache_count_their_own_scores_and_progress_counts_all(tmp_path):
    seen = []
    with CachedReranker(Sums(), tmp_path / "scores") as cached, ThreadPoolExecutor(8) as threads:
        cached.on_progress = seen.append
        parts = [PAIRS[start : start + 100] for start in range(0, 800, 100)]
        assert [count for _, count in threads.map(cached.predict_counted, parts)] == [100] * 8
    assert sum(seen) == 800 and models_of(tmp_path / "scores") == {"sums": 800}


def test_a_stored_score_is_read_back_exactly_and_stays(tmp_path):
    odd = [0.1, -1e-310, 1e308, np.nextafter(1, 2), -0.0]
    keys = [bytes([number]) for number in range(len(odd))]
    with SqliteScores(tmp_path / "scores") as store:
        store.put(dict(zip(keys, odd, strict=True)))
        store.put({keys[0]: 2.0, b"new": 3.0})
        assert store.get([*keys, b"new", b"absent"]) == dict(zip(keys, odd, strict=True)) | {b"new": 3.0}
        assert store.claim(keys) == set(keys)
    assert models_of(tmp_path / "scores") == {"": 6}


def test_the_file_is_of_layout_3(tmp_path):
    """Files of releases with this layout are read, and they read ours."""
    SqliteScores(tmp_path / "scores").close()
    with sqlite3.connect(tmp_path / "scores") as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x546F7552,)
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        assert [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")] == [
            "CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL, model INTEGER NOT NULL DEFAULT 0, "
            "checksum INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
            "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
            "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0)",
        ]
    connection.close()


def halve(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def scramble(path):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


@pytest.mark.parametrize("damage", [halve, scramble])
def test_a_damaged_file_is_renamed_and_replaced_once(tmp_path, damage, caplog):
    path = tmp_path / "scores.sqlite"
    with CachedReranker(Sums(), path) as before:
        before.predict(PAIRS)
    damage(path)
    damaged = path.read_bytes()
    with CachedReranker(Sums(), path) as one, CachedReranker(Sums(), path) as two:
        assert one.predict(PAIRS).tolist() == EXPECTED
        scores, computed = two.predict_counted(PAIRS[:5])
        assert (scores.tolist(), computed) == (EXPECTED[:5], 0)
    assert [file.read_bytes() for file in tmp_path.glob("*.damaged-*")] == [damaged]
    assert caplog.text.count("renamed to") == 1


def test_a_damaged_score_is_computed_again(tmp_path, caplog):
    path = tmp_path / "scores"
    with CachedReranker(Sums(), path) as cached:
        cached.predict(PAIRS)
    changes = ["logit = 4.0", "logit = 'high'", "logit = 9e999", "model = 77", "checksum = 5"]
    with sqlite3.connect(path) as connection:
        for number, change in enumerate(changes):
            row = f"(SELECT key FROM scores ORDER BY key LIMIT 1 OFFSET {number})"
            connection.execute(f"UPDATE scores SET {change} WHERE key = {row}")
    connection.close()
    for misses in (len(changes), 0):
        with CachedReranker(Sums(), path) as cached:
            scores, computed = cached.predict_counted(PAIRS)
            assert (scores.tolist(), computed) == (EXPECTED, misses)
    assert "5 damaged scores" in caplog.text


def make_later(path):
    SqliteScores(path).close()
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 4")
    later.close()


@pytest.mark.parametrize(
    ("make", "fingerprint", "word"),
    [
        (make_later, "f", "layout 4"),
        (Path.mkdir, "f", "cannot be used"),
        (Path.touch, None, "fingerprint"),
    ],
)
def test_refusals(tmp_path, make, fingerprint, word):
    path = tmp_path / "mine.sqlite"
    make(path)
    before = path.is_dir() or path.read_bytes()
    with pytest.raises(TourError, match=word):
        CachedReranker(Sums(fingerprint), path)
    assert (path.is_dir() or path.read_bytes()) == before


def test_scores_that_cannot_be_stored_are_still_returned_and_it_is_said_once(tmp_path, caplog):
    with CachedReranker(Sums(), tmp_path / "scores") as cached:
        cached._store._connection.execute("PRAGMA query_only = ON")
        for start in range(3):
            assert cached.predict(PAIRS[start : start + 3]).tolist() == EXPECTED[start : start + 3]
    assert caplog.text.count("could not be written") == 1


def start(path, first, last, step):
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(last), str(step)]
    environment = {"PYTHONPATH": f"{Path(__file__).parent}:{ROOT}"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def test_processes_that_write_together_lose_no_score_also_when_some_are_killed(tmp_path):
    path = tmp_path / "scores"
    writers = [start(path, first, first + 3000, 30) for first in (0, 1500)]
    doomed = start(path, 10_000, 1_000_000, 400)
    for _ in range(3):
        stored = int(doomed.stdout.readline())
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    pairs = [(str(number), str(number % 7)) for number in (*range(4500), *range(10_000, stored))]
    with CachedReranker(Raises(), path) as cached:
        np.testing.assert_array_equal(cached.predict(pairs), Sums().predict(pairs))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert not list(path.parent.glob("*damaged*"))
    assert (models_of(path)["sums"] - 4500) % 400 == 0  # each write is complete
