"""Several processes on one cache, and processes that die."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.rerankers import CachedReranker

ROOT = Path(__file__).parents[2]

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


class Raises:
    fingerprint = "lengths"

    def predict(self, pairs):
        raise AssertionError(f"{len(pairs)} scores were lost, such as that of {pairs[0]}")


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


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "scores"
    ranges = [(0, 3000), (1500, 4500), (3000, 6000)]
    writers = [start(path, first, last, 30) for first, last in ranges]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    assert_whole(path, 0, 6000)


@pytest.mark.parametrize("acknowledged", [1, 8, 40])
def test_a_killed_process_leaves_what_it_was_told_is_kept(tmp_path, acknowledged):
    path = tmp_path / "scores"
    for victim in range(2):
        first = victim * 1_000_000
        writer = start(path, first, first + 1_000_000, 50)
        for _ in range(acknowledged):
            kept = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert writer.returncode == -signal.SIGKILL
        assert_whole(path, first, kept)
    assert_whole(path, 0, acknowledged * 50)
