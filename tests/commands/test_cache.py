"""The command that shows, prunes and merges caches."""

import contextlib
import sqlite3
import time

import numpy as np
import pytest
from index_commands import largest_file

from tour_pyserini.cache import main
from tour_pyserini.encoders.query_vectors import CachedQueryEncoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.score_cache import CachedReranker, SqliteScores
from tour_pyserini.support.sqlite_cache import Model

PAIRS = [("q", str(number)) for number in range(3000)]


class Named:
    def __init__(self, name):
        self.name, self.fingerprint = name, f"kind:{name}0123456789"

    def predict(self, pairs):
        return np.array([float(passage) / 3 for _, passage in pairs])


def execute(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


@pytest.fixture
def path(tmp_path):
    """3,000 scores of model a, used 100 days ago, and 10 of model b."""
    path, past = tmp_path / "scores.sqlite", int(time.time()) - 8_640_000
    for name, pairs in (("a", PAIRS), ("b", PAIRS[:10])):
        with CachedReranker(Named(name), path) as cached:
            cached.predict(pairs)
    execute(path, "UPDATE models SET last_used = ? WHERE name = 'a'", past)
    return path


def output_of(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def counts(capsys, path):
    """Number of scores by name of the model."""
    lines = output_of(capsys, "stats", "--cache", path).splitlines()[2:]
    return {line.split()[0]: line.split()[2] for line in lines}


@pytest.mark.parametrize("which", ["--model a", "--model kind:a", "--unused-for 90"])
def test_prune_removes_the_chosen_scores_and_makes_the_file_smaller(path, which, capsys):
    size, prune = path.stat().st_size, ("prune", "--cache", path)
    assert "0 scores removed" in output_of(capsys, *prune, "--model", "b", "--unused-for", "90")
    assert "3,000 scores would be removed" in output_of(capsys, *prune, *which.split(), "--dry-run")
    assert counts(capsys, path) == {"a": "3,000", "b": "10"}
    assert "3,000 scores removed" in output_of(capsys, *prune, *which.split())
    assert path.stat().st_size < size / 2 and counts(capsys, path) == {"b": "10"}


def test_wrong_flags_are_refused(path, monkeypatch, refused):
    monkeypatch.chdir(path.parent)
    for words, says in {
        "stats --cache nothing.sqlite": "does not exist",
        "merge nothing.sqlite --cache scores.sqlite": "does not exist",
        "prune --cache scores.sqlite": "no scores were chosen",
        "prune --cache scores.sqlite --model c": "no scores of a model",
        "prune --cache scores.sqlite --unused-for=-1": "number of days",
    }.items():
        refused(main, words.split(), says)


@pytest.mark.parametrize("action", [["prune", "--model", "a"], ["merge", "other.sqlite"]])
def test_a_full_disk_is_said(path, action, monkeypatch):
    monkeypatch.chdir(path.parent)
    with SqliteScores(path.with_name("other.sqlite")) as other:
        other.put({bytes([number]) * 16: 1.0 for number in range(200)})
    before = path.read_bytes()
    with largest_file(1000), pytest.raises(TourError, match="full"):
        main([*action, "--cache", str(path)])
    assert path.read_bytes() == before


class Letters:
    def encode_batch(self, queries):
        return np.array([[len(query), 1.5] for query in queries], dtype=np.float32)


def test_query_vectors_are_shown_and_pruned_too(path, capsys, monkeypatch):
    """Beside the scores in the cache folder."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path.parent))
    vectors, neither = path.with_name("queries.sqlite"), ["prune", "--model", "neither"]
    CachedQueryEncoder(Letters, {"encoder": "x"}, vectors, name="letters").encode_batch(["a", "bb", "ccc"])
    shown = output_of(capsys, "stats")
    assert f"{path}: 3,010 scores, 0." in shown and f"{vectors}: 3 vectors, 0." in shown and "letters" in shown
    assert "vectors removed" not in output_of(capsys, "prune", "--model", "a")
    for words, says in ((neither, "'neither'"), (["merge", str(vectors)], "another program")):
        with pytest.raises(TourError, match=says):
            main(words)
    assert f"{vectors}: 3 vectors removed" in output_of(capsys, "prune", "--model", "letters")


@pytest.mark.parametrize(
    ("change", "actions"),
    [
        ("UPDATE scores SET logit = 4.0", "merge"),
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
    """What is there stays, whatever another file says about it."""
    other, third = tmp_path / "other.sqlite", tmp_path / "third.sqlite"
    with CachedReranker(Named("a"), other) as cached:
        cached.predict([("q", "5000"), ("q", "7")])
    with CachedReranker(Named("c"), third) as cached:
        cached.predict(PAIRS[:5])
    with SqliteScores(third) as store:
        store.put({b"u" * 16: 1.0})
    for said in ("7 scores added, 1 were there", "0 scores added, 8 were there"):
        assert output_of(capsys, "merge", other, third, "--cache", path) == f"{path}: {said}\n"
        assert counts(capsys, path) == {"a": "3,001", "b": "10", "c": "5", "unknown": "1"}
