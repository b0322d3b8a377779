"""Several processes that use one score cache, and processes that are killed."""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from score_files import write_layout_1

from tour_pyserini.cache import export
from tour_pyserini.rerankers import CachedReranker
from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.rerankers.sqlite_scores import SCORES
from tour_pyserini.support.sqlite_cache import rows_by_model, verify

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
            kept = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert writer.returncode == -signal.SIGKILL
        assert_whole(path, first, kept)
    assert_whole(path, 0, acknowledged * 50)


def test_several_processes_can_upgrade_a_file_of_layout_1_at_the_same_time(tmp_path):
    path = tmp_path / "scores"
    write_layout_1(path, [(str(number), str(number % 7)) for number in range(3000)], "lengths")
    writers = [start(path, first, first + 2000, 100) for first in (0, 1500, 2500)]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    assert_whole(path, 0, 4500)
    assert [use.rows for use in rows_by_model(SCORES, path) if use.fingerprint == "lengths"] == [4500]


def test_killed_processes_do_not_disturb_another_that_continues(tmp_path):
    path, output = tmp_path / "scores", tmp_path / "scores.jsonl"
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
    # Scores that killed processes stored without reporting them are correct too, and each write is complete.
    right = {pair_key("lengths", str(n), str(n % 7)).hex(): n * 1.5 + n % 7 for n in range(50_000)}
    assert export(path, output) == verify(SCORES, path)
    stored = [json.loads(line) for line in output.read_text().splitlines()]
    assert all(record["logit"] == right[record["key"]] for record in stored)
    assert (len(stored) - 6000) % 400 == 0
