"""A score cache in a real PostgreSQL server: real processes that share it, and kill -9 of them and of the server."""

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from postgres_server import PostgresServer

from tour_pyserini.cache import main
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores, postgres_scores
from tour_pyserini.rerankers.postgres_scores import PostgresScores, without_password
from tour_pyserini.rerankers.score_cache import is_server, pair_key
from tour_pyserini.support.sqlite_cache import Model

psycopg = pytest.importorskip("psycopg")

ROOT = Path(__file__).parents[2]
MODEL = Model("kind:a0123456789", "a")

# Scores pairs one by one, and appends each to a log when it is scored.
SCORER = """
import sys, time
import numpy as np
from tour_pyserini.rerankers import CachedReranker

class Slow:
    fingerprint = "slow"
    def predict(self, pairs):
        raise AssertionError
    def predict_parts(self, pairs):
        for position, (query, passage) in enumerate(pairs):
            time.sleep(seconds)
            log.write(f"{query} {passage}\\n")
            log.flush()
            yield np.array([position]), np.array([float(query) * 1.5 + float(passage)])

address, log = sys.argv[1], open(sys.argv[2], "a")
seconds, count, step = float(sys.argv[3]), *map(int, sys.argv[4:])
cached = CachedReranker(Slow(), address)
for start in range(0, count, step):
    scores = cached.predict([(str(number), str(number % 7)) for number in range(start, start + step)])
    assert scores.tolist() == [number * 1.5 + number % 7 for number in range(start, start + step)]
    print(start + step, flush=True)
cached.close()
"""


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


def scorer(address, log, *, seconds, count, step):
    command = [sys.executable, "-c", SCORER, address, *map(str, (log, seconds, count, step))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def count_scored(*logs):
    """How often each pair was scored."""
    return Counter(line for log in logs for line in log.read_text().splitlines())


class Raises:
    fingerprint = "slow"

    def predict(self, pairs):
        raise AssertionError(f"{len(pairs)} scores were lost, such as that of {pairs[0]}")


def assert_stored(address, numbers):
    pairs = [(str(number), str(number % 7)) for number in numbers]
    with CachedReranker(Raises(), address) as cached:
        assert cached.predict(pairs).tolist() == [number * 1.5 + number % 7 for number in numbers]


def test_a_claimed_key_is_not_claimed_again_until_it_is_put_released_or_its_client_leaves(address):
    a, b, c = (bytes([number]) * 16 for number in range(3))
    first, second = PostgresScores(address, MODEL), PostgresScores(address, MODEL)
    assert first.claim([a, b]) == {a, b}
    assert first.claim([a]) == set()  # another thread of the same process
    assert second.claim([a, b, c]) == {c}
    first.put({a: 1.0})
    first.release([b])
    assert second.claim([a, b]) == {b}  # a is stored
    second.close()
    assert first.claim([b, c]) == {b, c}
    first.close()


def test_two_processes_score_no_pair_twice(address, tmp_path):
    logs = [tmp_path / "1", tmp_path / "2"]
    scorers = [scorer(address, log, seconds=0.005, count=240, step=60) for log in logs]
    for process in scorers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    counts = count_scored(*logs)
    assert len(counts) == 240 and set(counts.values()) == {1}
    assert_stored(address, range(240))


def test_a_killed_process_loses_no_stored_label_and_its_claims_are_freed(address, tmp_path):
    doomed = scorer(address, tmp_path / "doomed", seconds=0.01, count=600, step=30)
    stored = int(doomed.stdout.readline())
    time.sleep(0.1)  # it has claimed the next thirty
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    assert_stored(address, range(stored))
    heir = scorer(address, tmp_path / "heir", seconds=0, count=120, step=60)
    heir.communicate(timeout=60)
    assert heir.returncode == 0
    assert_stored(address, range(120))
    # The heir scored none that was stored when it started.
    assert not [line for line in count_scored(tmp_path / "heir") if int(line.split()[0]) < stored]


def test_a_killed_server_loses_no_stored_label_and_clients_go_on(server, address, tmp_path):
    logs = [tmp_path / "1", tmp_path / "2"]
    scorers = [scorer(address, log, seconds=0.01, count=240, step=40) for log in logs]
    stored = [int(process.stdout.readline()) for process in scorers]
    server.kill()
    server.start()
    assert_stored(address, range(max(stored)))
    for process in scorers:
        process.communicate(timeout=90)
        assert process.returncode == 0
    assert len(count_scored(*logs)) == 240
    assert_stored(address, range(240))


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


def test_an_interrupted_scorer_gives_its_claims_up(address):
    class Interrupted:
        fingerprint = "i"

        def predict(self, pairs):
            raise KeyboardInterrupt

    class Ones(Interrupted):
        def predict(self, pairs):
            return np.ones(len(pairs))

    with CachedReranker(Interrupted(), address) as first, CachedReranker(Ones(), address) as second:
        with pytest.raises(KeyboardInterrupt):
            first.predict([("q", "p")])
        assert second.predict([("q", "p")]).tolist() == [1.0]


def test_a_damaged_score_is_scored_again(address, caplog, tmp_path):
    key = pair_key("x", "q", "p")
    with PostgresScores(address, MODEL) as store:
        store.put({key: 1.0, b"o" * 16: 2.0})
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("UPDATE tour_scores SET logit = 3.0 WHERE key = %s", [key])
        with pytest.raises(TourError, match=f"damaged.*{key.hex()}"):
            main(["merge", address, "--cache", str(tmp_path / "other.sqlite")])
        assert store.get([key]) == {}
    assert "1 damaged scores" in caplog.text


def change_layout(address):
    PostgresScores(address).close()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE tour_layout SET version = 7")
    return address


@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("postgresql://me:secret@127.0.0.1:1/x", "cannot be opened"),
        ("mysql://u:secret@h/d", "give a file or postgresql"),
        ("postgresql://me:secret@[::1/db", "cannot be read"),
        (change_layout, "layout 7"),
    ],
)
def test_other_servers_are_refused_without_their_password(location, word, request):
    if callable(location):
        location = location(request.getfixturevalue("address"))
    with pytest.raises(TourError, match=word) as caught:
        CachedReranker(Raises(), location)
    assert "secret" not in str(caught.value)


def test_passwords_are_not_shown():
    shown = without_password("postgresql://u:p%40@h/d?password=x&sslmode=require")
    assert shown == "postgresql://u@h/d?sslmode=require"
    assert without_password("postgresql:///d?password=x") == "postgresql:///d"
    assert without_password("scores.sqlite") == "scores.sqlite"
    assert not is_server("scores.sqlite")


@pytest.mark.parametrize("between", ["#", "/", "?", "\u2100", "["])
def test_a_password_that_is_not_escaped_is_not_shown(between):
    with pytest.raises(TourError, match="percent-encoded") as refusal:
        without_password(f"postgresql://u:xyz{between}xyz@h/d")
    assert "xyz" not in str(refusal.value)


def test_the_database_is_merged_shown_and_pruned_as_a_file_is(address, tmp_path, capsys):
    key, other = pair_key(MODEL.fingerprint, "q", "1"), str(tmp_path / "other.sqlite")
    values = [0.1 + 0.2, -0.0, 1e308, 5e-324]
    with PostgresScores(address, MODEL) as store:
        store.put({key: 1 / 3} | {bytes([number]) * 16: value for number, value in enumerate(values)})
        store.put({key: 9.0})  # the first one stays
    with SqliteScores(other, MODEL) as store:
        store.put({b"n" * 16: 1.0, key: 1 / 3 + 1e-7})
    for source, target in ((other, address), (other, address), (address, other)):
        main(["merge", source, "--cache", target])
    assert capsys.readouterr().out.splitlines() == [
        f"{address}: 1 scores added, 1 were there (they differ by 1e-07 at most)",
        f"{address}: 0 scores added, 2 were there (they differ by 1e-07 at most)",
        f"{other}: 4 scores added, 2 were there (they differ by 1e-07 at most)",
    ]
    said = []
    for location in (address, other):
        main(["stats", "--cache", location])
        for options in (["--dry-run"], []):
            main(["prune", "--cache", location, "--model", "a", *options])
        words = capsys.readouterr().out.replace(location, "CACHE").splitlines()
        said.append([line for line in words if "MiB" not in line])
        with pytest.raises(TourError, match="'c'"):
            main(["prune", "--cache", location, "--model", "c"])
    assert said[0] == said[1] and "CACHE: 6 scores removed" in said[0]
