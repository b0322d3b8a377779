"""A score cache: what is scored, what is looked up, and what is stored while a call runs."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import (
    CachedReranker,
    SqliteScores,
    cross_encoders,
    load_reranker,
    load_reranker_later,
    score_pairs,
)
from tour_pyserini.rerankers import score_cache as cache_module
from tour_pyserini.rerankers.score_cache import pair_key

TEXTS = st.text(max_size=8)
PAIRS = [("who", f"passage {number}" * number) for number in range(1200)]


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


class InParts(Lengths):
    """Yields the scores of single pairs, last first; `between` is called between two of them."""

    def __init__(self, between=lambda count: None):
        super().__init__()
        self.between = between

    def predict_parts(self, pairs):
        for count, position in enumerate(reversed(range(len(pairs)))):
            self.between(count)
            yield np.array([position]), Lengths().predict([pairs[position]])


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


def test_every_text_has_a_key_of_its_own():
    texts = [
        ("m", "ab", "c"),
        ("m", "a", "bc"),
        ("ma", "b", "c"),
        ("m", "", "abc"),
        ("m", "\ud800", ""),
        ("m", "\ud801", ""),
    ]
    assert len({pair_key(*one) for one in texts}) == 6


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


def test_models_give_the_same_scores_in_parts_and_together(tmp_path, bert_folder, onnx_folder, pairs):
    for folder, options in ((bert_folder(), {"backend": "torch"}), (onnx_folder(), {})):
        reranker = load_reranker(folder, **options)
        together = score_pairs(reranker, [*pairs, *pairs[:3]])
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
        assert 32 in seen


def test_a_cache_wraps_a_cache(tmp_path):
    with CachedReranker(Lengths(), tmp_path / "a") as inner, CachedReranker(inner, tmp_path / "b") as outer:
        assert outer.predict(PAIRS[:3]).tolist() == Lengths().predict(PAIRS[:3]).tolist()
        assert inner.misses == outer.misses == 3


def test_lookup_computes_nothing(tmp_path):
    with CachedReranker(Lengths(), tmp_path / "scores") as cached:
        cached.predict([("q", "a")])
    with CachedReranker(Raises(), tmp_path / "scores") as again:
        assert np.isnan(again.lookup([("q", "a"), ("q", "b")])).tolist() == [False, True]
        assert again.lookup([]).shape == (0,)


def test_few_functions_lie_between_the_cache_and_the_forward_pass(tmp_path, onnx_folder, monkeypatch):
    """A reader follows a pair from the caller to the model in one sitting."""
    paths = []

    class Session:
        def __init__(self, session):
            self.get_inputs = session.get_inputs

        def run(self, *_):
            names = [frame.function for frame in inspect.stack() if "tour_pyserini/" in frame.filename]
            paths.append(names[: names.index("predict_counted") + 1])
            return [np.ones((1, 1))]

    plain = cross_encoders.open_graph
    monkeypatch.setattr(cross_encoders, "open_graph", lambda *args, **options: Session(plain(*args, **options)))
    folder = onnx_folder()
    load_reranker_later(folder, threads=1)  # the second one is loaded for the first pair
    with CachedReranker(load_reranker_later(folder, threads=1), tmp_path / "scores") as cached:
        cached.predict([("who", "cat"), ("who", "mat")])
    assert len(paths) == 2
    assert max(map(len, paths)) <= 6, paths
