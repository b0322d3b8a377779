"""The score cache in a file and in a real PostgreSQL server: exact values, damage, kill -9 of processes and server."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_server import PostgresServer

from tour_pyserini.cache import main
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import postgres_scores
from tour_pyserini.rerankers import score_cache as cache_module
from tour_pyserini.rerankers.postgres_scores import PostgresScores, without_password
from tour_pyserini.rerankers.reranker import score_pairs, score_pairs_counted, score_parts
from tour_pyserini.rerankers.score_cache import CachedReranker, SqliteScores, is_server, open_scores, pair_key
from tour_pyserini.support.sqlite_cache import Model

ROOT = Path(__file__).parents[2]
TEXTS = st.text(max_size=8)
MODEL = Model("kind:a0123456789", "a")

# Scores pairs one by one, and appends each to a log when it is scored.
SCORER = """
import sys, time
from test_score_cache import CachedReranker, InParts, make_pairs
place, log, seconds, first, last, step = *sys.argv[1:4], *map(int, sys.argv[4:])

def write(pair):
    time.sleep(float(seconds))
    with open(log, "a") as file:
        file.write(f"{pair[0]}\\n")

with CachedReranker(InParts(write), place) as cached:
    for start in range(first, last, step):
        cached.predict(make_pairs(range(start, start + step)))
        print(start + step, flush=True)
"""


def make_pairs(numbers):
    return [(str(number), str(number % 7)) for number in numbers]


PAIRS = make_pairs(range(1200))


class Sums:
    """Scores a pair of numbers, and records the pairs it was asked for."""

    def __init__(self, fingerprint="sums", name="sums"):
        self.fingerprint, self.name, self.asked = fingerprint, name, []

    def predict(self, pairs):
        self.asked.extend(pairs)
        return np.array([float(query) * 1.5 + float(passage) for query, passage in pairs])


class Raises(Sums):
    def predict(self, pairs):
        raise AssertionError(f"{len(pairs)} scores were lost, such as that of {pairs[0]}")


class InParts(Sums):
    """Yields the scores of single pairs, last first; `before` is called before each of them."""

    def __init__(self, before):
        super().__init__()
        self.before = before

    def predict_parts(self, pairs):
        for position in reversed(range(len(pairs))):
            self.before(pairs[position])
            yield np.array([position]), Sums().predict([pairs[position]])


EXPECTED = Sums().predict(PAIRS).tolist()


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def address(server):
    """The address of an empty database."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server.address


@pytest.fixture(params=["file", "database"])
def place(request, tmp_path):
    """Where scores are stored."""
    return str(tmp_path / "scores.sqlite") if request.param == "file" else request.getfixturevalue("address")


def count(place):
    with open_scores(place) as store:
        return store.count()


def change(place, *statements):
    """Run SQL."""
    server = is_server(place)
    opened = psycopg.connect(place, autocommit=True) if server else sqlite3.connect(place, isolation_level=None)
    with contextlib.closing(opened) as database:
        for statement in statements:
            database.execute(statement)


def start(place, log, *, seconds=0.0, numbers, step):
    words = map(str, (place, log, seconds, numbers.start, numbers.stop, step))
    environment = {"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[1]}:{ROOT}"}
    command = [sys.executable, "-c", SCORER, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def finish(*processes):
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0


def assert_stored(place, numbers):
    pairs = make_pairs(numbers)
    with CachedReranker(Raises(), place) as cached:
        np.testing.assert_array_equal(cached.predict(pairs), Sums().predict(pairs))


def test_only_new_pairs_are_scored_and_repetitions_once(place):
    inner = Sums()
    with CachedReranker(inner, place) as cached:
        cached.predict(PAIRS[:1])
        cached.predict([PAIRS[1], PAIRS[0], PAIRS[1], PAIRS[2]])
        assert inner.asked == PAIRS[:3]
        assert cached.predict(PAIRS).tolist() == EXPECTED
    with CachedReranker(Raises(), place) as again:
        assert again.predict(PAIRS[::-1]).tolist() == EXPECTED[::-1]
        assert again.predict([]).shape == (0,)
        assert np.isnan(again.lookup([PAIRS[0], ("7", "6")])).tolist() == [False, True]


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_keys_are_equal_only_for_equal_texts_and_those_of_earlier_versions(one, other):
    assert (pair_key(*one) == pair_key(*other)) == (one == other)
    assert pair_key("m", "ab", "c").hex() == "adda1f43c179268308b021f1033dde7b"


def test_bad_scores_are_not_stored_but_those_before_them_are(place):
    class Fails(Sums):
        def predict(self, pairs):
            return np.where([pair == PAIRS[70] for pair in pairs], np.nan, super().predict(pairs))

    with CachedReranker(Fails(), place) as cached, pytest.raises(TourError, match="nan"):
        cached.predict(PAIRS[:100])
    assert count(place) == 64  # two calls with 32 pairs


class Titles(Sums):
    """Scores the length of the title."""

    def reads(self, passage):
        return "|".join(passage.parts)

    def predict(self, pairs):
        self.asked.extend(pairs)
        return [len(passage.parts[0]) for _, passage in pairs]


def test_passages_with_the_same_characters_and_other_titles_are_distinct_and_progress_counts_all_pairs(tmp_path):
    one, other = Passage("a", "b c"), Passage("a b", "c")
    titles, seen = Titles(), []
    with CachedReranker(titles, tmp_path / "scores") as cached:
        cached.on_progress = seen.append
        pairs = [("q", one), ("q", other), ("q", one), ("r", one)]
        scores, computed = score_pairs_counted(cached, pairs)
    assert (scores.tolist(), scores.dtype, computed) == ([1, 3, 1, 1], np.float64, 3)
    assert titles.asked == [("q", one), ("q", other), ("r", one)]
    assert sum(seen) == 4


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, None, [0.0, np.nan], [0.0, np.inf]])
def test_wrong_scores_are_refused(scores):
    reranker = SimpleNamespace(predict=lambda pairs: scores, name="it")
    word = "'1'.*'1'" if isinstance(scores, list) and scores[0] == 0.0 else "one number"
    for ask in (score_pairs, lambda *args: list(score_parts(*args))):
        with pytest.raises(TourError, match=word):
            ask(reranker, PAIRS[:2])


@pytest.mark.parametrize(("parts", "word"), [([([0], [1.0])], "1 of 2"), ([([0, 1], [1.0, np.nan])], "'1'.*'1'")])
def test_parts_have_one_finite_score_for_each_pair(parts, word):
    given = (tuple(map(np.array, part)) for part in parts)
    with pytest.raises(TourError, match=word):
        list(score_parts(SimpleNamespace(predict_parts=lambda pairs: given), PAIRS[:2]))


def test_scores_are_written_while_others_are_computed(place, monkeypatch):
    clock, stored = [0.0], []
    monkeypatch.setattr(cache_module.time, "monotonic", lambda: clock[0])

    def look(_):
        clock[0] += 1 / 8
        stored.append(count(place))

    with CachedReranker(InParts(look), place) as cached:
        assert cached.predict(PAIRS[:40]).tolist() == EXPECTED[:40]
    assert stored == [number // 8 * 8 for number in range(40)]


def test_an_interruption_loses_no_score_that_was_computed_and_no_claim(place):
    def stop(pair):
        if pair == PAIRS[9]:
            raise KeyboardInterrupt

    with CachedReranker(InParts(stop), place) as cached:
        with pytest.raises(KeyboardInterrupt):
            cached.predict(PAIRS[:40])
        assert count(place) == 30
        with CachedReranker(Sums(), place) as other:
            assert other.predict_counted(PAIRS[:40])[1] == 10


def test_a_stored_score_is_read_back_exactly_and_stays(place):
    odd = [0.1, -1e-310, 1e308, np.nextafter(1, 2), -0.0]
    scores = {bytes([number]) * 16: value for number, value in enumerate(odd)}
    with open_scores(place, MODEL) as store:
        store.put(scores)
        store.put({bytes(16): 2.0, b"new": 3.0})
        assert store.get([*scores, b"new", b"absent"]) == scores | {b"new": 3.0}
        assert [(use.name, use.rows) for use in store.models()] == [("a", 6)]


def test_a_damaged_score_is_computed_again(tmp_path, caplog):
    place = str(tmp_path / "scores")
    with CachedReranker(Sums(), place) as cached:
        cached.predict(PAIRS)
    keys = [pair_key("sums", *pair).hex() for pair in PAIRS]
    changes = ["logit = 4.0", "logit = 'high'", "logit = 9e999", "model = 77", "checksum = 5"]
    change(place, *(f"UPDATE scores SET {new} WHERE key = x'{key}'" for new, key in zip(changes, keys, strict=False)))
    for misses in (5, 0):
        with CachedReranker(Sums(), place) as cached:
            scores, computed = cached.predict_counted(PAIRS)
            assert (scores.tolist(), computed) == (EXPECTED, misses)
    assert "5 damaged scores" in caplog.text


@pytest.mark.parametrize("damage", ["half", "zeros", "DROP TABLE models"])
def test_a_damaged_file_is_refused_and_stays(tmp_path, damage):
    path = tmp_path / "scores"
    with CachedReranker(Sums(), path) as cached:
        cached.predict(PAIRS)
    raw = path.read_bytes()
    if damage in ("half", "zeros"):
        path.write_bytes(raw[: len(raw) // 2] if damage == "half" else raw[:4096] + bytes(len(raw) - 4096))
    else:
        change(path, damage)
    before = path.read_bytes()
    with pytest.raises(TourError, match=r"is damaged .* delete it"), CachedReranker(Sums(), path) as cached:
        cached.predict(PAIRS)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("location", "sql", "fingerprint", "word"),
    [
        ("file", "PRAGMA user_version = 4", "f", "layout 4"),
        ("address", "UPDATE tour_layout SET version = 7", "f", "layout 7"),
        ("folder", None, "f", "cannot be used"),
        ("file", None, None, "fingerprint"),
        ("postgresql://me:secret@127.0.0.1:1/x", None, "f", "cannot be opened"),
        ("mysql://u:secret@h/d", None, "f", "give a file or postgresql"),
        ("postgresql://me:secret@[::1/db", None, "f", "cannot be read"),
        *((f"postgresql://u:secret{one}secret@h/d", None, "f", "percent-encoded") for one in "#/?[\u2100"),
    ],
)
def test_what_is_no_score_cache_is_refused_without_its_password(request, tmp_path, location, sql, fingerprint, word):
    names = {"file": str(tmp_path / "mine.sqlite"), "folder": str(tmp_path)}
    location = request.getfixturevalue("address") if location == "address" else names.get(location, location)
    if sql:
        open_scores(location).close()
        change(location, sql)
    with pytest.raises(TourError, match=word) as caught:
        CachedReranker(Sums(fingerprint), location)
    assert "secret" not in str(caught.value)
    shown = without_password("postgresql://u:p%40@h/d?password=x&sslmode=require")
    assert shown == "postgresql://u@h/d?sslmode=require"
    assert without_password("postgresql:///d?password=x") == "postgresql:///d"


def test_scores_that_cannot_be_stored_are_still_returned_and_it_is_said_once(tmp_path, caplog):
    with CachedReranker(Sums(), tmp_path / "scores") as cached:
        cached._store._connection.execute("PRAGMA query_only = ON")
        for start in range(3):
            assert cached.predict(PAIRS[start : start + 3]).tolist() == EXPECTED[start : start + 3]
    assert caplog.text.count("could not be written") == 1


def test_processes_lose_no_score_also_when_some_are_killed(place, tmp_path):
    """With a database, no two of them score the same pair."""
    logs = [tmp_path / "1", tmp_path / "2"]
    scorers = [start(place, log, seconds=0.005, numbers=range(240), step=60) for log in logs]
    doomed = start(place, tmp_path / "doomed", numbers=range(1000, 100_000), step=400)
    stored = [int(doomed.stdout.readline()) for _ in range(3)][-1]
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    finish(*scorers)
    assert_stored(place, [*range(240), *range(1000, stored)])
    if is_server(place):
        counts = Counter(line for log in logs if log.exists() for line in log.read_text().splitlines())
        assert len(counts) == 240 and set(counts.values()) == {1}
        with CachedReranker(Sums(), place) as heir:  # what it had claimed is free
            assert heir.predict_counted(make_pairs(range(1000, stored + 800)))[1] > 0
    else:
        assert sqlite3.connect(place).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not list(tmp_path.glob("*damaged*"))
        assert (count(place) - 240) % 400 == 0  # each write is complete


def test_a_killed_server_loses_no_stored_label_and_clients_go_on(server, address, tmp_path):
    scorers = [start(address, tmp_path / name, seconds=0.01, numbers=range(240), step=40) for name in ("1", "2")]
    stored = [int(process.stdout.readline()) for process in scorers]
    server.kill()
    server.start()
    assert_stored(address, range(max(stored)))
    finish(*scorers)
    assert_stored(address, range(240))


def test_a_claimed_key_is_not_claimed_again_until_it_is_put_released_or_its_client_leaves(address):
    a, b, c = (bytes([number]) * 16 for number in range(3))
    with PostgresScores(address, MODEL) as first, PostgresScores(address, MODEL) as second:
        assert first.claim([a, b]) == {a, b}
        assert first.claim([a]) == set()  # another thread of the same process
        assert second.claim([a, b, c]) == {c}
        first.put({a: 1.0})
        first.release([b])
        assert second.claim([a, b]) == {b}  # a is stored
        second.close()
        assert first.claim([b, c]) == {b, c}


def test_claims_of_a_lost_connection_are_free_and_clients_go_on(server, address, monkeypatch, caplog):
    key, other = b"k" * 16, b"o" * 16
    with PostgresScores(address, MODEL) as first:
        assert first.claim([key]) == {key}
        server.kill()
        monkeypatch.setattr(postgres_scores, "LOST_SECONDS", 0.0)
        first.put({key: 1.0})
        first.release([key])
        assert caplog.text.count("could not be written") == 1
        with pytest.raises(TourError, match="cannot be used"):
            first.claim([key])
        monkeypatch.undo()
        server.start()
        with PostgresScores(address, MODEL) as second:
            assert second.claim([key]) == {key}
            assert first.claim([key, other]) == {other}


def test_a_database_is_merged_shown_and_pruned_as_a_file_is(address, tmp_path, capsys):
    key, other = pair_key(MODEL.fingerprint, "q", "1"), str(tmp_path / "other.sqlite")
    with PostgresScores(address, MODEL) as store, SqliteScores(other, MODEL) as file:
        store.put({key: 1 / 3, b"m" * 16: 2.0})
        file.put({b"n" * 16: 1.0, key: 1 / 3 + 1e-7})
    for source, target, counts in ((other, address, (1, 1)), (other, address, (0, 2)), (address, other, (1, 2))):
        main(["merge", source, "--cache", target])
        assert "{}: {} scores added, {} were there\n".format(target, *counts) == capsys.readouterr().out
    said = []
    for location in (address, other):
        main(["stats", "--cache", location])
        for options in (["--dry-run"], []):
            main(["prune", "--cache", location, "--model", "a", *options])
        words = capsys.readouterr().out.replace(location, "CACHE").splitlines()
        said.append([line for line in words if "MiB" not in line])
    assert said[0] == said[1] and "CACHE: 3 scores removed" in said[0]
