import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, SqliteScores, load_reranker
from tour_pyserini.rerankers import score_cache as cache_module
from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.rerankers.sqlite_scores import APPLICATION_ID

TEXTS = st.text(max_size=8)


class Lengths:
    """Scores a pair by its lengths, and records the pairs it was asked for."""

    def __init__(self, fingerprint="lengths"):
        self.fingerprint = fingerprint
        self.asked = []

    def predict(self, pairs):
        self.asked.extend(pairs)
        return np.array([len(query) + len(passage) / 7 for query, passage in pairs])


class Raises:
    def __init__(self, fingerprint="lengths"):
        self.fingerprint = fingerprint

    def predict(self, pairs):
        raise AssertionError(f"asked for {pairs}")


PAIRS = [("who", f"passage {number}" * number) for number in range(1200)]


def test_a_second_run_scores_nothing(tmp_path):
    with CachedReranker(Lengths(), tmp_path / "scores") as cached:
        first = cached.predict(PAIRS)
        assert (cached.hits, cached.misses) == (0, 1200)
    assert first.tolist() == Lengths().predict(PAIRS).tolist()
    with CachedReranker(Raises(), tmp_path / "scores") as again:
        assert again.predict(PAIRS[::-1]).tolist() == first[::-1].tolist()
        assert (again.hits, again.misses) == (1200, 0)
        assert again.stats().scores == 1200
        assert again.predict([]).shape == (0,)


def test_only_new_pairs_are_scored_and_repetitions_once(tmp_path):
    inner = Lengths()
    with CachedReranker(inner, tmp_path / "scores") as cached:
        cached.predict([("q", "a")])
        scores = cached.predict([("q", "b"), ("q", "a"), ("q", "b"), ("r", "a")])
        assert inner.asked == [("q", "a"), ("q", "b"), ("r", "a")]
        assert scores.tolist() == Lengths().predict([("q", "b"), ("q", "a"), ("q", "b"), ("r", "a")]).tolist()
        assert (cached.hits, cached.misses) == (2, 3)


def test_another_model_or_an_edited_text_is_scored_again(tmp_path):
    CachedReranker(Lengths("model a"), tmp_path / "scores").predict([("who", "cat")])
    for fingerprint, pair in [("model b", ("who", "cat")), ("model a", ("who", "cat.")), ("model a", ("Who", "cat"))]:
        with pytest.raises(AssertionError, match="asked for"):
            CachedReranker(Raises(fingerprint), tmp_path / "scores").predict([pair])


def test_another_maximum_length_is_scored_again(tmp_path, onnx_folder):
    folder, pair = onnx_folder(), ("who wrote hamlet", "the cat sat on a mat")
    with CachedReranker(load_reranker(folder), tmp_path / "scores") as uncut:
        long = uncut.predict([pair])
    with CachedReranker(load_reranker(folder, max_length=8), tmp_path / "scores") as cut:
        assert cut.predict([pair]) < long
        assert cut.misses == 1


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_keys_are_equal_only_for_equal_texts(one, other):
    assert (pair_key(*one) == pair_key(*other)) == (one == other)


def test_moving_a_character_between_texts_changes_the_key():
    assert (
        len({pair_key("m", "ab", "c"), pair_key("m", "a", "bc"), pair_key("ma", "b", "c"), pair_key("m", "", "abc")})
        == 4
    )


def test_half_a_surrogate_pair_has_a_key():
    assert pair_key("m", "\ud800", "") != pair_key("m", "\ud801", "")


@pytest.mark.parametrize("fingerprint", [None, "", 3])
def test_a_reranker_without_a_fingerprint_is_refused(tmp_path, fingerprint):
    with pytest.raises(TourError, match=r"Lengths cannot be cached.*fingerprint"):
        CachedReranker(Lengths(fingerprint), tmp_path / "scores")
    assert not (tmp_path / "scores").exists()


def test_bad_scores_are_not_stored_but_those_before_them_are(tmp_path):
    class Fails(Lengths):
        def predict(self, pairs):
            scores = super().predict(pairs)
            return np.where([passage == PAIRS[70][1] for _, passage in pairs], np.nan, scores)

    with CachedReranker(Fails(), tmp_path / "scores") as cached:
        with pytest.raises(TourError, match="nan"):
            cached.predict(PAIRS[:100])
        assert cached.stats().scores == 64  # two calls with 32 pairs
    with CachedReranker(Raises(), tmp_path / "scores") as again:
        assert again.predict(PAIRS[:64]).tolist() == Lengths().predict(PAIRS[:64]).tolist()


class InParts(Lengths):
    """Yields the scores of single pairs, last first; `between` is called between two of them."""

    def __init__(self, between=lambda count: None):
        super().__init__()
        self.between = between

    def predict_parts(self, pairs):
        for count, position in enumerate(reversed(range(len(pairs)))):
            self.between(count)
            yield np.array([position]), Lengths().predict([pairs[position]])


def test_scores_are_written_while_others_are_computed(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(cache_module.time, "monotonic", lambda: clock[0])
    stored = []

    def look(_):
        clock[0] += 1 / 8
        with SqliteScores(tmp_path / "scores") as store:
            stored.append(store.stats().scores)

    with CachedReranker(InParts(look), tmp_path / "scores") as cached:
        assert cached.predict(PAIRS[:40]).tolist() == Lengths().predict(PAIRS[:40]).tolist()
    assert stored == [count // 8 * 8 for count in range(40)]


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_loses_no_score_that_was_computed(tmp_path, end):
    def stop(count):
        if count == 30:
            raise end

    with CachedReranker(InParts(stop), tmp_path / "scores") as cached:
        with pytest.raises(end):
            cached.predict(PAIRS[:40])
        assert cached.stats().scores == 30


def test_parts_must_cover_every_pair(tmp_path):
    class Forgets(Lengths):
        def predict_parts(self, pairs):
            yield np.array([0, 2]), np.array([1.0, 2.0])

    with (
        CachedReranker(Forgets(), tmp_path / "scores") as cached,
        pytest.raises(TourError, match="no score to 1 of 3 pairs"),
    ):
        cached.predict(PAIRS[:3])


def test_models_give_the_same_scores_in_parts_and_together(tmp_path, bert_folder, onnx_folder, pairs):
    for folder, options in ((bert_folder(), {"backend": "torch"}), (onnx_folder(), {})):
        reranker = load_reranker(folder, **options)
        together = reranker.predict([*pairs, *pairs[:3]])
        with CachedReranker(reranker, tmp_path / folder.name / "scores") as cached:
            assert cached.predict([*pairs, *pairs[:3]]).tolist() == together.tolist()
            assert cached.misses == len(set(pairs))


def test_threads_that_share_a_cache_count_their_own_scores(tmp_path):
    with CachedReranker(Lengths(), tmp_path / "scores") as cached, ThreadPoolExecutor(8) as threads:
        parts = [PAIRS[start : start + 100] for start in range(0, 800, 100)]
        counts = [count for _, count in threads.map(cached.predict_counted, parts)]
        assert counts == [100] * 8
        assert (cached.hits, cached.misses) == (0, 800)


def test_progress_counts_every_pair_once(tmp_path, onnx_folder):
    for inner in (Lengths(), load_reranker(onnx_folder())):
        seen = []
        cached = CachedReranker(inner, tmp_path / "scores")
        cached.on_progress = seen.append
        cached.predict(PAIRS[:30])
        cached.predict(PAIRS[:40] + PAIRS[:2])
        assert sum(seen) == 30 + 42
        assert seen[-1] == 10 or seen[-10:] == [1] * 10  # all at once, or pair by pair
        assert 32 in seen


def test_a_cache_wraps_a_cache(tmp_path):
    with CachedReranker(Lengths(), tmp_path / "a") as inner, CachedReranker(inner, tmp_path / "b") as outer:
        assert outer.predict(PAIRS[:3]).tolist() == Lengths().predict(PAIRS[:3]).tolist()
        assert inner.misses == outer.misses == 3


def filled(path):
    with SqliteScores(path) as store:
        store.put({number.to_bytes(16, "big"): float(number) for number in range(20000)})
    return path


def garbage(path):
    path.write_bytes(b"this is not a database" * 100)


def halved(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def scrambled(path):
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [garbage, halved, scrambled])
def test_a_damaged_file_is_renamed_and_replaced(tmp_path, damage, caplog):
    path = filled(tmp_path / "scores.sqlite")
    for number in (1, 2):
        damage(path)
        damaged = path.read_bytes()
        with CachedReranker(Lengths(), path) as cached:
            assert cached.predict(PAIRS).tolist() == Lengths().predict(PAIRS).tolist()
        assert (tmp_path / f"scores.sqlite.damaged-{number}").read_bytes() == damaged
        with CachedReranker(Raises(), path) as again:
            again.predict(PAIRS)
    assert caplog.text.count("renamed to") == 2


def test_a_file_that_is_damaged_while_open_is_replaced(tmp_path):
    path = filled(tmp_path / "scores.sqlite")
    with CachedReranker(Lengths(), path) as cached:
        scrambled(path)
        assert cached.predict(PAIRS).tolist() == Lengths().predict(PAIRS).tolist()
        assert cached.stats().scores == len(PAIRS)
    assert (tmp_path / "scores.sqlite.damaged-1").exists()


def test_two_users_of_a_damaged_file_rename_it_once(tmp_path):
    path = filled(tmp_path / "scores.sqlite")
    with CachedReranker(Lengths(), path) as one, CachedReranker(Lengths(), path) as two:
        scrambled(path)
        one.predict(PAIRS[:5])
        assert two.predict(PAIRS[:5]).tolist() == Lengths().predict(PAIRS[:5]).tolist()
        assert two.hits == 5
    assert not (tmp_path / "scores.sqlite.damaged-2").exists()


@pytest.mark.parametrize("table", ["addresses", "scores"])
def test_a_database_of_another_program_is_refused_and_not_changed(tmp_path, table):
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as mine:
        mine.execute(f"CREATE TABLE {table} (name)")
    mine.close()
    before = path.read_bytes()
    with pytest.raises(TourError, match="database of another program"):
        SqliteScores(path)
    assert path.read_bytes() == before


def test_a_later_layout_is_refused(tmp_path):
    path = filled(tmp_path / "scores")
    with sqlite3.connect(path) as later:
        assert later.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        later.execute("PRAGMA user_version = 4")
    later.close()
    with pytest.raises(TourError, match="layout 4, but this version reads layout 3"):
        SqliteScores(path)


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(TourError, match="cannot be opened"):
        SqliteScores(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TourError, match="cannot be opened"):
        SqliteScores(tmp_path / "file" / "scores")


def test_scores_that_cannot_be_stored_are_still_returned(tmp_path, caplog):
    with CachedReranker(Lengths(), tmp_path / "scores") as cached:
        cached._store._connection.execute("PRAGMA query_only = ON")
        assert cached.predict(PAIRS[:3]).tolist() == Lengths().predict(PAIRS[:3]).tolist()
    assert "3 scores could not be written" in caplog.text


def test_a_stored_score_is_read_back_exactly(tmp_path):
    odd = [0.1, -1e-310, 1e308, np.nextafter(1, 2), -0.0]
    keys = [bytes([number]) for number in range(len(odd))]
    with SqliteScores(tmp_path / "scores") as store:
        store.put(dict(zip(keys, odd, strict=True)))
        found = store.get(keys)
        assert [found[key] for key in keys] == odd


def test_a_stored_key_keeps_its_score_and_other_keys_are_stored(tmp_path, caplog):
    with SqliteScores(tmp_path / "scores") as store:
        store.put({b"a": 1.0})
        store.put({b"a": 2.0, b"b": 3.0})
        assert store.get([b"a", b"b", b"c"]) == {b"a": 1.0, b"b": 3.0}
        assert store.stats().scores == 2
    assert not caplog.text


def test_a_full_disk_is_told_once(tmp_path, caplog):
    with CachedReranker(Lengths(), tmp_path / "scores") as cached:
        cached._store._connection.execute("PRAGMA query_only = ON")
        for start in range(3):
            cached.predict(PAIRS[start : start + 1])
    assert caplog.text.count("could not be written") == 1
