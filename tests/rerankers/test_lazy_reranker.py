"""A re-ranker that is loaded when the first pair is scored."""

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import CachedReranker, lazy_reranker, load_reranker, load_reranker_later
from tour_pyserini.rerankers.loading import LazyReranker

PAIRS = [("who wrote hamlet", "hamlet is a tragedy"), ("the cat", "sat on the mat")]


@pytest.fixture
def loads(monkeypatch):
    """The specs of the re-rankers that were loaded."""
    seen = []
    plain = lazy_reranker.load_reranker
    monkeypatch.setattr(
        lazy_reranker, "load_reranker", lambda spec, **options: seen.append(spec) or plain(spec, **options)
    )
    return seen


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_the_second_time_it_is_loaded_for_its_first_pair(loads, onnx_folder, bert_folder, kind):
    folder = onnx_folder() if kind == "onnx" else bert_folder()
    options = {"max_length": 40, "backend": kind}
    first = load_reranker_later(folder, **options)
    assert len(loads) == 1
    later = load_reranker_later(folder, **options)
    assert isinstance(later, LazyReranker)
    assert len(loads) == 1
    assert later.fingerprint == first.fingerprint == load_reranker(folder, **options).fingerprint
    assert np.array_equal(later.predict(PAIRS), first.predict(PAIRS))
    later.predict(PAIRS)
    assert len(loads) == 2


def test_other_options_or_other_files_are_not_remembered(loads, onnx_folder):
    folder = onnx_folder()
    load_reranker_later(folder, max_length=40)
    assert not isinstance(load_reranker_later(folder, max_length=50), LazyReranker)
    (folder / "config.json").write_text("{}")
    assert not isinstance(load_reranker_later(folder, max_length=40), LazyReranker)
    assert isinstance(load_reranker_later(folder, max_length=40), LazyReranker)


def test_with_a_score_cache_a_known_label_loads_nothing(loads, onnx_folder, tmp_path):
    folder = onnx_folder()
    with CachedReranker(load_reranker_later(folder), tmp_path / "scores.sqlite") as reranker:
        expected = reranker.predict(PAIRS)
    with CachedReranker(load_reranker_later(folder), tmp_path / "scores.sqlite") as reranker:
        reported = []
        reranker.on_progress = reported.append
        assert np.array_equal(reranker.predict(PAIRS), expected)
        assert len(loads) == 1
        reranker.predict([*PAIRS, ("cat", "mat")])
    assert len(loads) == 2
    assert sum(reported) == 5


def test_a_re_ranker_that_is_no_longer_the_same_is_refused_once(onnx_folder, monkeypatch):
    folder = onnx_folder()
    fingerprint = load_reranker_later(folder).fingerprint
    later = load_reranker_later(folder)
    plain = lazy_reranker.load_reranker

    def changed(spec, **options):
        reranker = plain(spec, **options)
        reranker.fingerprint = "another"
        return reranker

    monkeypatch.setattr(lazy_reranker, "load_reranker", changed)
    with pytest.raises(TourError, match="run the command again"):
        later.predict(PAIRS)
    assert load_reranker_later(folder).fingerprint == "another" != fingerprint


def test_a_missing_folder_is_reported_at_once(tmp_path):
    with pytest.raises(TourError, match="does not exist"):
        load_reranker_later(tmp_path / "missing")


def test_objects_are_used_as_they_are():
    class Mine:
        def predict(self, pairs):
            return [0.0] * len(pairs)

    mine = Mine()
    assert load_reranker_later(mine) is mine
