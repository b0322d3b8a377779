"""The command that shows, prunes and merges caches."""

import contextlib
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.cache import main
from tour_pyserini.encoders.query_vectors import CachedQueryEncoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores
from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.support.sqlite_cache import Model

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [("q", str(number)) for number in range(3000)]


class Named:
    def __init__(self, name):
        self.name, self.fingerprint = name, f"kind:{name}0123456789"

    def predict(self, pairs):
        return np.array([float(passage) / 3 for _, passage in pairs])


@pytest.fixture
def path(tmp_path):
    """3,000 scores of model a, used 100 days ago, and 10 of model b."""
    for name, pairs in (("a", PAIRS), ("b", PAIRS[:10])):
        with CachedReranker(Named(name), tmp_path / "scores.sqlite") as cached:
            cached.predict(pairs)
    execute(
        tmp_path / "scores.sqlite", "UPDATE models SET last_used = ? WHERE name = 'a'", int(time.time()) - 8_640_000
    )
    return tmp_path / "scores.sqlite"


def execute(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def output_of(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def test_stats_by_model(path, capsys):
    headline, _, *models = output_of(capsys, "stats", "--cache", path).splitlines()
    assert headline.startswith(f"{path}: 3,010 scores, 0.")
    assert [line.split()[:3] for line in models] == [
        ["a", "kind:a0123456789", "3,000"],
        ["b", "kind:b0123456789", "10"],
    ]


@pytest.mark.parametrize("which", [["--model", "a"], ["--model", "kind:a"], ["--unused-for", "90"]])
def test_prune_removes_the_chosen_scores_and_makes_the_file_smaller(path, which, capsys):
    size = path.stat().st_size
    both = ["--model", "b", "--unused-for", "90"]
    assert "0 scores removed" in output_of(capsys, "prune", "--cache", path, *both)
    assert "3,000 scores would be removed" in output_of(capsys, "prune", "--cache", path, *which, "--dry-run")
    assert "3,010 scores" in output_of(capsys, "stats", "--cache", path)
    assert "3,000 scores removed" in output_of(capsys, "prune", "--cache", path, *which)
    assert path.stat().st_size < size / 2
    for name, misses in (("b", 0), ("a", 10)):
        with CachedReranker(Named(name), path) as cached:
            scores, computed = cached.predict_counted(PAIRS[:10])
            assert (scores.tolist(), computed) == (Named(name).predict(PAIRS[:10]).tolist(), misses)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("stats --cache nothing.sqlite", "does not exist"),
        ("merge nothing.sqlite --cache scores.sqlite", "does not exist"),
        ("prune --cache scores.sqlite", "no scores were chosen"),
        ("prune --cache scores.sqlite --model c", "no scores of a model"),
    ],
)
def test_wrong_flags_are_refused(path, monkeypatch, words, says):
    monkeypatch.chdir(path.parent)
    with pytest.raises(TourError, match=says):
        main(words.split())


@pytest.mark.parametrize("days", ["-1", "nan", "soon"])
def test_prune_needs_a_number_of_days(path, days, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["prune", "--cache", str(path), f"--unused-for={days}"])
    assert stopped.value.code == 2 and "not a number of days" in capsys.readouterr().err
    with SqliteScores(path) as store:
        assert store.count() == 3010


def test_prune_on_a_full_disk_says_so(path):
    before = path.read_bytes()
    command = [sys.executable, "-m", "tour_pyserini.cache", "prune", "--cache", str(path), "--model", "a"]

    def largest_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=largest_file)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "its disk" in done.stderr
    assert path.read_bytes() == before


class Letters:
    def encode_batch(self, queries):
        return np.array([[len(query), 1.5] for query in queries], dtype=np.float32)


@pytest.fixture
def vectors(path, monkeypatch):
    """The vectors of three queries, beside the scores in the cache folder."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path.parent))
    vectors = path.with_name("queries.sqlite")
    CachedQueryEncoder(Letters, {"encoder": "x"}, vectors, name="letters").encode_batch(["a", "bb", "ccc"])
    return vectors


def test_query_vectors_are_shown_and_pruned_too(vectors, path, capsys):
    shown = output_of(capsys, "stats")
    assert f"{path}: 3,010 scores, 0." in shown and f"{vectors}: 3 vectors, 0." in shown and "letters" in shown
    assert output_of(capsys, "prune", "--model", "letters", "--dry-run").startswith(f"{vectors}: 3 vectors would be")
    assert "vectors removed" not in output_of(capsys, "prune", "--model", "a")
    with pytest.raises(TourError, match="'neither'"):
        main(["prune", "--model", "neither"])
    with pytest.raises(TourError, match="query vectors"):
        main(["merge", str(vectors)])
    assert f"{vectors}: 3 vectors removed" in output_of(capsys, "prune", "--model", "letters")
    assert "0 vectors" in output_of(capsys, "stats", "--cache", vectors)


@pytest.mark.parametrize(
    ("change", "actions"),
    [
        ("UPDATE scores SET logit = x'ff'", "merge"),
        ("UPDATE scores SET logit = 4.0", "merge"),
        ("UPDATE scores SET model = 77", "merge"),
        ("DROP TABLE models", "stats prune merge"),
        (lambda path: path.write_bytes(path.read_bytes()[:6000]), "stats prune merge"),
        (lambda path: path.write_bytes(b"no database " * 1000), "stats prune merge"),
    ],
)
def test_damage_is_reported(tmp_path, change, actions):
    for action in actions.split():
        path = tmp_path / f"{action}.sqlite"
        with SqliteScores(path, Model("print", "name")) as store:
            store.put({b"k" * 16: 1.5})
        change(path) if callable(change) else execute(path, change)
        flags = {"prune": ["--unused-for", "0"], "merge": ["--cache", str(tmp_path / "new.sqlite"), str(path)]}
        with pytest.raises(TourError, match="is damaged"):
            main([action, *flags.get(action, []), *(["--cache", str(path)] if action != "merge" else [])])


def test_files_are_merged_and_again_nothing_changes(path, tmp_path, capsys):
    other = tmp_path / "other.sqlite"
    with CachedReranker(Named("a"), other) as cached:
        cached.predict([("q", "5000"), ("q", "7")])
    with CachedReranker(Named("c"), tmp_path / "third.sqlite") as cached:
        cached.predict(PAIRS[:5])
    with SqliteScores(tmp_path / "third.sqlite") as store:
        store.put({b"u" * 16: 1.0})
    sources = (other, tmp_path / "third.sqlite")
    assert output_of(capsys, "merge", *sources, "--cache", path) == f"{path}: 7 scores added, 1 were there\n"
    assert output_of(capsys, "merge", *sources, "--cache", path) == f"{path}: 0 scores added, 8 were there\n"
    stats = output_of(capsys, "stats", "--cache", path)
    counts = {line.split()[0]: line.split()[2] for line in stats.splitlines()[2:]}
    assert counts == {"a": "3,001", "b": "10", "c": "5", "unknown": "1"}


def test_a_file_that_contradicts_is_refused_whole(path, tmp_path, capsys):
    other = tmp_path / "other.sqlite"
    with SqliteScores(other, Model("kind:a0123456789", "a")) as store:
        store.put({b"n" * 16: 1.0, pair_key("kind:a0123456789", "q", "7"): 2.0})
    with pytest.raises(TourError, match="different scores of the model a"):
        main(["merge", str(other), "--cache", str(path)])
    assert "3,010 scores" in output_of(capsys, "stats", "--cache", path)
