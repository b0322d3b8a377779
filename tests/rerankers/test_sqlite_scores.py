"""A file of scores: exact values, models, damage, several processes, and processes that are killed."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores
from tour_pyserini.rerankers.sqlite_scores import SCORES
from tour_pyserini.support.sqlite_cache import CacheFile

ROOT = Path(__file__).parents[2]
PAIRS = [(str(number), str(number % 7)) for number in range(1200)]

WRITER = """
import sys
import numpy as np
from tour_pyserini.rerankers import CachedReranker

class Lengths:
    fingerprint = "lengths"
    def predict(self, pairs):
        return np.array([float(query) * 1.5 + float(passage) for query, passage in pairs])

path, first, last, step = sys.argv[1], *map(int, sys.argv[2:])
cached = CachedReranker(Lengths(), path)
for start in range(first, last, step):
    cached.predict([(str(number), str(number % 7)) for number in range(start, start + step)])
    print(start + step, flush=True)
"""


class Sums:
    def __init__(self, name="lengths"):
        self.name = self.fingerprint = name

    def predict(self, pairs):
        return np.array([float(query) * 1.5 + float(passage) for query, passage in pairs])


class Raises(Sums):
    def predict(self, pairs):
        raise AssertionError(f"{len(pairs)} scores were lost, such as that of {pairs[0]}")


EXPECTED = Sums().predict(PAIRS).tolist()


def models_of(path):
    return {use.name: use.rows for use in CacheFile(SCORES, path).models()}


def test_a_stored_score_is_read_back_exactly_and_stays(tmp_path, caplog):
    odd = [0.1, -1e-310, 1e308, np.nextafter(1, 2), -0.0]
    keys = [bytes([number]) for number in range(len(odd))]
    with SqliteScores(tmp_path / "scores") as store:
        store.put(dict(zip(keys, odd, strict=True)))
        store.put({keys[0]: 2.0, b"new": 3.0})
        found = store.get([*keys, b"new", b"absent"])
        assert found == dict(zip(keys, odd, strict=True)) | {b"new": 3.0}
        assert store.stats().scores == 6
        assert store.claim(keys) == set(keys)
        store.release(keys)
    assert models_of(tmp_path / "scores") == {"": 6}
    assert not caplog.text


def test_scores_are_counted_by_model(tmp_path):
    path = tmp_path / "scores"
    with CachedReranker(Sums("a"), path) as a, CachedReranker(Sums("b"), path) as b:
        a.predict(PAIRS[:30])
        b.predict(PAIRS[:20])
        a.predict(PAIRS[:40])
    assert models_of(path) == {"a": 40, "b": 20}
    renamed = Sums("a")
    renamed.name = "renamed"
    with CachedReranker(renamed, path) as cached:
        cached.predict(PAIRS[:5])
    assert models_of(path) == {"renamed": 40, "b": 20}


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


def fill(path):
    with SqliteScores(path) as store:
        store.put({number.to_bytes(16, "big"): float(number) for number in range(20000)})
    return path


def write_garbage(path):
    path.write_bytes(b"this is not a database" * 100)


def halve(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def scramble(path):
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)


def break_definition(path):
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE scores", b"CREA\xd4E TABLE scores"))


@pytest.mark.parametrize("damage", [write_garbage, halve, scramble, break_definition])
def test_a_damaged_file_is_renamed_and_replaced(tmp_path, damage, caplog):
    path = fill(tmp_path / "scores.sqlite")
    for number in (1, 2):
        damage(path)
        damaged = path.read_bytes()
        with CachedReranker(Sums(), path) as cached:
            assert cached.predict(PAIRS).tolist() == EXPECTED
        assert (tmp_path / f"scores.sqlite.damaged-{number}").read_bytes() == damaged
        with CachedReranker(Raises(), path) as again:
            again.predict(PAIRS)
    assert caplog.text.count("renamed to") == 2


def test_users_of_a_file_that_is_damaged_while_open_replace_it_once(tmp_path):
    path = fill(tmp_path / "scores.sqlite")
    with CachedReranker(Sums(), path) as one, CachedReranker(Sums(), path) as two:
        scramble(path)
        assert one.predict(PAIRS).tolist() == EXPECTED
        assert two.predict(PAIRS[:5]).tolist() == EXPECTED[:5]
        assert two.hits == 5
    assert models_of(path) == {"lengths": len(PAIRS)}
    assert (tmp_path / "scores.sqlite.damaged-1").exists()
    assert not (tmp_path / "scores.sqlite.damaged-2").exists()


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
            assert cached.predict(PAIRS).tolist() == EXPECTED
            assert cached.misses == misses
    assert "5 damaged scores" in caplog.text


def make_foreign(path):
    with sqlite3.connect(path) as mine:
        mine.execute("CREATE TABLE scores (name)")
    mine.close()


def make_later(path):
    SqliteScores(path).close()
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 4")
    later.close()


@pytest.mark.parametrize(
    ("make", "word"), [(make_foreign, "another program"), (make_later, "layout 4"), (Path.mkdir, "cannot be opened")]
)
def test_other_files_are_refused_and_not_changed(tmp_path, make, word):
    path = tmp_path / "mine.sqlite"
    make(path)
    before = path.is_dir() or path.read_bytes()
    with pytest.raises(TourError, match=word):
        SqliteScores(path)
    assert (path.is_dir() or path.read_bytes()) == before


def test_scores_that_cannot_be_stored_are_still_returned_and_it_is_said_once(tmp_path, caplog):
    with CachedReranker(Sums(), tmp_path / "scores") as cached:
        cached._store._connection.execute("PRAGMA query_only = ON")
        for start in range(3):
            assert cached.predict(PAIRS[start : start + 3]).tolist() == EXPECTED[start : start + 3]
    assert caplog.text.count("could not be written") == 1


def start(path, first, last, step):
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(last), str(step)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def assert_whole(path, first, last):
    pairs = [(str(number), str(number % 7)) for number in range(first, last)]
    with CachedReranker(Raises(), path) as cached:
        scores = cached.predict(pairs)
    np.testing.assert_array_equal(scores, [float(query) * 1.5 + float(passage) for query, passage in pairs])
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert not list(path.parent.glob("*damaged*"))


def test_processes_that_write_at_the_same_time_lose_no_score(tmp_path):
    path = tmp_path / "scores"
    ranges = [(0, 3000), (1500, 4500), (3000, 6000)]
    writers = [start(path, first, last, 30) for first, last in ranges]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    assert_whole(path, 0, 6000)


@pytest.mark.parametrize("acknowledged", [1, 8, 40])
def test_the_scores_that_a_killed_process_has_stored_stay(tmp_path, acknowledged):
    path = tmp_path / "scores"
    for victim in range(2):
        first = victim * 1_000_000
        writer = start(path, first, first + 1_000_000, 50)
        for _ in range(acknowledged):
            stored = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert writer.returncode == -signal.SIGKILL
        assert_whole(path, first, stored)
    assert_whole(path, 0, acknowledged * 50)


def test_killed_processes_do_not_disturb_another_that_continues(tmp_path):
    path = tmp_path / "scores"
    steady = start(path, 0, 6000, 30)
    for victim in range(1, 5):
        doomed = start(path, victim * 10_000, victim * 10_000 + 10_000, 400)
        doomed.stdout.readline()
        doomed.send_signal(signal.SIGKILL)
        doomed.communicate()
        assert doomed.returncode == -signal.SIGKILL
    steady.communicate(timeout=120)
    assert steady.returncode == 0
    assert_whole(path, 0, 6000)
    (rows,) = models_of(path).values()
    assert (rows - 6000) % 400 == 0  # each write is complete
