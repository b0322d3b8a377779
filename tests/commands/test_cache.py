import contextlib
import json
import random
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.cache import main
from tour_pyserini.encoders.vector_cache import StoredVectorEncoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores
from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.rerankers.sqlite_scores import connect
from tour_pyserini.support.sqlite_cache import Model

ROOT = Path(__file__).resolve().parents[2]


class Named:
    def __init__(self, name):
        self.name, self.fingerprint = name, f"kind:{name}0123456789"

    def predict(self, pairs):
        return np.array([float(passage) / 3 for _, passage in pairs])


PAIRS = [("q", str(number)) for number in range(3000)]


@pytest.fixture
def path(tmp_path):
    """3,000 scores of model a, used 100 days ago, and 10 of model b."""
    for name, pairs in (("a", PAIRS), ("b", PAIRS[:10])):
        with CachedReranker(Named(name), tmp_path / "scores.sqlite") as cached:
            cached.predict(pairs)
    last_used = int(time.time()) - 8640000
    execute(
        tmp_path / "scores.sqlite",
        "UPDATE models SET last_used = ?1, checksum = model_checksum(id, fingerprint, name, first_used, ?1) "
        "WHERE name = 'a'",
        last_used,
    )
    return tmp_path / "scores.sqlite"


def execute(path, statement, *values):
    with contextlib.closing(connect(path)) as connection:
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


def test_the_default_file_is_in_the_cache_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path))
    SqliteScores(tmp_path / "scores.sqlite").close()
    assert "0 scores" in output_of(capsys, "stats")


def test_an_undamaged_file_is_verified(path, capsys):
    assert output_of(capsys, "verify", "--cache", path) == f"{path}: 3,010 scores, all of them valid\n"


def infinite(path):
    execute(path, "UPDATE scores SET logit = 9e999 WHERE key = ?", pair_key(Named("a").fingerprint, *PAIRS[5]))


def text_score(path):
    execute(path, "UPDATE scores SET logit = 'high' WHERE key = ?", pair_key(Named("a").fingerprint, *PAIRS[5]))


def short_key(path):
    execute(path, "INSERT INTO scores VALUES (x'0102', 1.0, 1, score_checksum(x'0102', 1.0, 1))")


def without_model(path):
    execute(path, "UPDATE scores SET model = 77 WHERE key = ?", pair_key(Named("a").fingerprint, *PAIRS[5]))


def another_score(path):
    execute(path, "UPDATE scores SET logit = 4.0 WHERE key = ?", pair_key(Named("a").fingerprint, *PAIRS[5]))


def another_model(path):
    execute(path, "UPDATE scores SET model = 2 WHERE key = ?", pair_key(Named("a").fingerprint, *PAIRS[5]))


def another_name(path):
    execute(path, "UPDATE models SET name = 'c' WHERE name = 'b'")


def zeroed(path):
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(4096) + content[12288:])


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def bad_definition(path):
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE scores", b"CREA\xd4E TABLE scores"))


def no_database(path):
    path.write_bytes(b"no database " * 1000)


@pytest.mark.parametrize(
    "damage",
    [
        *(infinite, text_score, short_key, without_model, another_score, another_model, another_name),
        *(zeroed, halved, bad_definition, no_database),
    ],
)
def test_damage_is_reported_and_the_file_is_not_changed(path, damage):
    damage(path)
    before = path.read_bytes()
    with pytest.raises(TourError, match=r"is damaged \(.*\); rename or delete it"):
        main(["verify", "--cache", str(path)])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob("*damaged*")] == []


def test_damage_is_one_sentence_and_exit_code_2(path):
    halved(path)
    command = [sys.executable, "-m", "tour_pyserini.cache", "verify", "--cache", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: the score cache {path} is damaged") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("which", [["--model", "a"], ["--model", "kind:a"], ["--unused-for", "90"]])
def test_prune_removes_the_chosen_scores_and_makes_the_file_smaller(path, which, capsys):
    size = path.stat().st_size
    assert "3,000 scores would be removed" in output_of(capsys, "prune", "--cache", path, *which, "--dry-run")
    assert "3,010 scores" in output_of(capsys, "stats", "--cache", path)
    assert "3,000 scores removed" in output_of(capsys, "prune", "--cache", path, *which)
    assert path.stat().st_size < size / 2
    assert "10 scores, all of them valid" in output_of(capsys, "verify", "--cache", path)
    with CachedReranker(Named("b"), path) as cached:
        assert cached.predict(PAIRS[:10]).tolist() == Named("b").predict(PAIRS[:10]).tolist()
        assert cached.misses == 0


def test_prune_needs_a_choice_and_combines_choices(path, capsys):
    assert "\n" in output_of(capsys, "prune", "--cache", path, "--model", "b", "--unused-for", "90")
    assert "3,010 scores" in output_of(capsys, "stats", "--cache", path)
    with pytest.raises(TourError, match="no scores were chosen"):
        main(["prune", "--cache", str(path)])
    for unknown in ("c", "", "unknown"):
        with pytest.raises(TourError, match="no scores of a model"):
            main(["prune", "--cache", str(path), "--model", unknown])


def test_a_reranker_works_after_its_scores_were_pruned(path, capsys):
    with CachedReranker(Named("a"), path) as cached:
        output_of(capsys, "prune", "--cache", path, "--model", "a")
        cached.predict(PAIRS[:5])
        assert cached.misses == 5
    assert "a      kind:a0123456789       5" in output_of(capsys, "stats", "--cache", path)


def test_export_has_every_score(path, tmp_path, capsys):
    output = tmp_path / "scores.jsonl"
    assert "3,010 scores" in output_of(capsys, "export", "--cache", path, "--output", output)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [record["key"] for record in records] == sorted(record["key"] for record in records)
    expected = {
        (Named(name).fingerprint, pair_key(Named(name).fingerprint, *pair).hex(), float(pair[1]) / 3)
        for name, pairs in (("a", PAIRS), ("b", PAIRS[:10]))
        for pair in pairs
    }
    assert {(record["model"], record["key"], record["logit"]) for record in records} == expected


def test_a_failed_export_does_not_change_its_output(path, tmp_path):
    output = tmp_path / "scores.jsonl"
    output.write_text("before")
    zeroed(path)
    with pytest.raises(TourError, match="damaged"):
        main(["export", "--cache", str(path), "--output", str(output)])
    assert output.read_text() == "before"
    with pytest.raises(TourError, match="would overwrite the input"):
        main(["export", "--cache", str(path), "--output", str(path)])


class Letters:
    def encode_batch(self, queries):
        return np.array([[len(query), 1.5] for query in queries], dtype=np.float32)


@pytest.fixture
def kept(path, monkeypatch):
    """A cache folder with scores and with the vectors of three queries."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path.parent))
    vectors = path.with_name("queries.sqlite")
    StoredVectorEncoder(Letters, {"encoder": "x"}, vectors, name="letters").encode_batch(["a", "bb", "ccc"])
    return vectors


def test_query_vectors_are_shown_verified_and_pruned_too(kept, path, capsys, tmp_path):
    shown = output_of(capsys, "stats")
    assert f"{path}: 3,010 scores, 0." in shown and f"{kept}: 3 vectors, 0." in shown and "letters" in shown
    assert f"{kept}: 3 vectors, all of them valid\n" in output_of(capsys, "verify")
    assert output_of(capsys, "verify", "--cache", kept).count("\n") == 1
    assert output_of(capsys, "prune", "--model", "letters", "--dry-run").startswith(f"{kept}: 3 vectors would be")
    assert "1 vectors" not in output_of(capsys, "prune", "--model", "a")
    with pytest.raises(TourError, match="no scores of a model 'neither'"):
        main(["prune", "--model", "neither"])
    assert f"{kept}: 3 vectors removed" in output_of(capsys, "prune", "--model", "letters")
    assert "0 vectors" in output_of(capsys, "stats", "--cache", kept)
    with pytest.raises(TourError, match="holds query vectors, not scores"):
        main(["export", "--cache", str(kept), "--output", str(tmp_path / "out.jsonl")])


def test_a_damaged_query_vector_is_found(kept):
    content = bytearray(kept.read_bytes())
    content[content.rindex(np.float32([3, 1.5]).tobytes())] ^= 4
    kept.write_bytes(content)
    with pytest.raises(TourError, match=r"query vectors .* is damaged \(1 vectors with a wrong checksum\)"):
        main(["verify"])


@pytest.mark.parametrize("action", ["stats", "verify", "prune --model a", "export --output out.jsonl"])
def test_a_missing_file_is_refused_and_not_created(tmp_path, action):
    with pytest.raises(TourError, match="does not exist; give the path"):
        main([*action.split(), "--cache", str(tmp_path / "scores.sqlite")])
    assert not list(tmp_path.iterdir())


def content_of(path):
    """Everything that a score file says, by tables."""
    with contextlib.closing(connect(path)) as connection:
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("scores", "models")]


def test_a_flipped_byte_is_found_unless_the_file_still_says_the_same(tmp_path):
    path = tmp_path / "scores.sqlite"
    with CachedReranker(Named("a"), path) as cached:
        cached.predict(PAIRS[:100])
    right = {pair: float(pair[1]) / 3 for pair in PAIRS[:100]}
    whole, before = path.read_bytes(), content_of(path)
    chosen = random.Random(5)
    rows = whole.index(pair_key(Named("a").fingerprint, *PAIRS[0]))
    found = 0
    for offset in [*range(rows - 4, rows + 30), *chosen.sample(range(len(whole)), 30)]:
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        try:
            main(["verify", "--cache", str(path)])
            assert content_of(path) == before, f"the change of byte {offset} was not found"
        except TourError:
            found += 1
        path.write_bytes(damaged)
        with contextlib.suppress(TourError), CachedReranker(Named("a"), path) as cached:
            assert dict(zip(right, cached.predict(list(right)).tolist(), strict=True)) == right, offset
        for left in tmp_path.iterdir():
            left.unlink()
    assert found >= 34


def test_a_damaged_score_is_bought_again_and_kept(path, capsys, caplog):
    another_score(path)
    with CachedReranker(Named("a"), path) as cached:
        assert cached.predict(PAIRS).tolist() == Named("a").predict(PAIRS).tolist()
        assert cached.misses == 1
    assert "1 damaged scores in the score cache" in caplog.text
    assert "3,010 scores, all of them valid" in output_of(capsys, "verify", "--cache", path)


def test_prune_on_a_full_disk_says_so(path):
    before = path.read_bytes()
    command = [sys.executable, "-m", "tour_pyserini.cache", "prune", "--cache", str(path), "--model", "a"]

    def largest_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=largest_file)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "make room on its disk" in done.stderr
    assert path.read_bytes() == before


def test_a_damaged_length_that_asks_for_too_much_memory_is_damage(path, monkeypatch):
    def too_much(*_):
        raise MemoryError

    monkeypatch.setattr("tour_pyserini.support.sqlite_cache._model_uses", too_much)
    with pytest.raises(TourError, match=r"is damaged .*MemoryError"):
        main(["stats", "--cache", str(path)])


@pytest.mark.parametrize(
    ("change", "damages"),
    [
        ("UPDATE models SET name = x'ff00fe'", "stats prune"),
        ("UPDATE models SET name = CAST(x'fffe41' AS TEXT)", "stats prune verify"),
        ("UPDATE models SET last_used = 'yesterday'", "stats prune verify"),
        ("UPDATE models SET last_used = x'ff'", "stats prune verify"),
        ("UPDATE models SET last_used = 9223372036854775807", "stats verify"),
        ("UPDATE models SET first_used = 1e300", "stats prune verify"),
        ("UPDATE scores SET logit = x'ff'", "export verify"),
        ("UPDATE scores SET logit = CAST(x'ff41' AS TEXT)", "export verify"),
        ("DROP TABLE models", "stats prune export verify"),
    ],
)
def test_values_of_other_types_are_damage(tmp_path, change, damages):
    path = tmp_path / "s.sqlite"
    flags = {"prune": ["--unused-for", "0"], "export": ["--output", str(tmp_path / "scores.jsonl")]}
    for command in damages.split():
        path.unlink(missing_ok=True)
        with SqliteScores(path, Model("print", "name")) as store:
            store.put({b"k" * 16: 1.5})
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(change)
            connection.commit()
        with pytest.raises(TourError, match="is damaged"):
            main([command, "--cache", str(path), *flags.get(command, [])])


def test_files_are_merged_and_again_nothing_changes(path, tmp_path, capsys):
    other = tmp_path / "other.sqlite"
    with CachedReranker(Named("a"), other) as cached:
        cached.predict([("q", "5000"), ("q", "7")])
    with CachedReranker(Named("c"), tmp_path / "third.sqlite") as cached:
        cached.predict(PAIRS[:5])
    sources = (other, tmp_path / "third.sqlite")
    assert output_of(capsys, "merge", *sources, "--cache", path) == f"{path}: 6 scores added, 1 were there\n"
    assert output_of(capsys, "merge", *sources, "--cache", path) == f"{path}: 0 scores added, 7 were there\n"
    stats = output_of(capsys, "stats", "--cache", path)
    assert "3,016 scores" in stats and [line.split()[2] for line in stats.splitlines()[2:]] == ["3,001", "10", "5"]
    assert "3,016 scores, all of them valid" in output_of(capsys, "verify", "--cache", path)


def test_merging_into_a_new_file_keeps_scores_without_a_model(path, tmp_path, capsys):
    execute(path, "UPDATE scores SET model = 0, checksum = score_checksum(key, logit, 0) WHERE model = 2")
    new = tmp_path / "new.sqlite"
    assert "3,010 scores added, 0 were there" in output_of(capsys, "merge", path, "--cache", new)
    for cache, output in ((path, "old.jsonl"), (new, "new.jsonl")):
        main(["export", "--cache", str(cache), "--output", str(tmp_path / output)])
    assert (tmp_path / "old.jsonl").read_text() == (tmp_path / "new.jsonl").read_text()


def test_a_file_that_contradicts_is_refused_whole(path, tmp_path, capsys):
    other = tmp_path / "other.sqlite"
    with SqliteScores(other, Model("kind:a0123456789", "a")) as store:
        store.put({b"n" * 16: 1.0, pair_key("kind:a0123456789", "q", "7"): 2.0})
    before = output_of(capsys, "verify", "--cache", path)
    with pytest.raises(TourError, match=r"have different scores of the model a for the pair .* \(2 and 2.33333\)"):
        main(["merge", str(other), "--cache", str(path)])
    assert output_of(capsys, "verify", "--cache", path) == before


def test_a_file_is_not_merged_into_itself_nor_a_damaged_or_missing_one_into_another(path, tmp_path):
    with pytest.raises(TourError, match=r"cannot be merged into itself"):
        main(["merge", str(path), "--cache", str(path)])
    with pytest.raises(TourError, match=r"does not exist"):
        main(["merge", str(tmp_path / "nothing"), "--cache", str(path)])
    execute(path, "UPDATE scores SET logit = 8.5 WHERE key = (SELECT min(key) FROM scores)")
    with pytest.raises(TourError, match=r"is damaged"):
        main(["merge", str(path), "--cache", str(tmp_path / "new.sqlite")])
    assert not (tmp_path / "new.sqlite").exists()
