"""Calibrating an index: the scale is found once, stored beside the index, and used by searches."""

import json
import shutil

import faiss
import pytest

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.records import record_path
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import CalibrateRequest, IndexRequest, SearchRequest, build_index, calibrate, search
from tour_pyserini.stores.index_scales import find_scale, given_scale, read_scales, scales_path, write_scale
from tour_pyserini.support.files import sha256

REQUEST = {"no_cache": True, "queries": 8, "depth": 4}


@pytest.fixture
def index(small_index):
    scales_path(small_index.index).unlink(missing_ok=True)
    return small_index


def found_scale(run):
    return json.loads(record_path(run).read_text())["found"]["similarity_scale"]


def searched(index, tmp_path, name, **options):
    request = SearchRequest(
        topics=index.topics,
        index=index.index,
        corpus=index.corpus,
        reranker=index.reranker,
        output=str(tmp_path / name),
        no_cache=True,
        **options,
    )
    return search(request).output


def test_the_scale_is_stored_and_searches_read_it(index, tmp_path):
    before = searched(index, tmp_path, "before.trec")
    assert found_scale(before) == "found for each query, from its own labels"
    done = calibrate(CalibrateRequest(index=index.index, corpus=index.corpus, reranker=index.reranker, **REQUEST))
    assert done.path == scales_path(index.index)
    assert done.found.scale > 0 and done.found.queries == 8 and done.found.labels == 32
    assert "passages" in done.found.source
    stored = find_scale(index.index, encoder=done.found.encoder, reranker=done.found.reranker)
    assert stored == done.found
    assert found_scale(searched(index, tmp_path, "after.trec")) == stored._asdict()
    # A method that does not calibrate keeps the scale of its settings.
    plain = searched(index, tmp_path, "hard.trec", config=TourConfig("hard", similarity_scale=3.0))
    assert found_scale(plain) == 3.0


def test_calibrating_again_gives_the_same_scale_and_one_entry(index):
    request = CalibrateRequest(index=index.index, corpus=index.corpus, reranker=index.reranker, **REQUEST)
    first, second = calibrate(request), calibrate(request)
    assert first.found == second.found
    assert len(read_scales(index.index)) == 1


def test_given_queries_are_used(index):
    request = CalibrateRequest(
        index=index.index, corpus=index.corpus, reranker=index.reranker, topics=index.topics, **REQUEST
    )
    assert f"topics of {index.topics}" in calibrate(request).found.source


def test_the_scale_of_another_reranker_is_not_used(index):
    done = calibrate(CalibrateRequest(index=index.index, corpus=index.corpus, reranker=index.reranker, **REQUEST))
    assert find_scale(index.index, encoder=done.found.encoder, reranker="another") is None


@pytest.mark.parametrize("text", ["", "[]", '{"scales": [{"scale": -1}]}', '{"scales": 3}', "[" * 100000])
def test_a_damaged_file_is_named(index, text):
    scales_path(index.index).write_text(text)
    with pytest.raises(TourError, match=r"tour-scales\.json does not hold the scales of an index"):
        read_scales(index.index)


@pytest.mark.parametrize("options", [{"query_prefix": "a"}, {"query_prefix": "b c"}])
def test_the_scale_of_other_query_vectors_is_not_used(index, tmp_path, options):
    calibrate(CalibrateRequest(index=index.index, corpus=index.corpus, reranker=index.reranker, **REQUEST))
    other = searched(index, tmp_path, "other.trec", **options)
    assert found_scale(other) == "found for each query, from its own labels"


@pytest.mark.parametrize("options", [{"query_prefix": "a"}, {"pooling": "cls"}, {"l2_norm": False}])
def test_the_scale_of_the_same_query_vectors_is_used(index, tmp_path, options):
    request = {"index": index.index, "corpus": index.corpus, "reranker": index.reranker, **options}
    done = calibrate(CalibrateRequest(**request, **REQUEST))
    used = found_scale(searched(index, tmp_path, "same.trec", **options))
    assert used == done.found._asdict()


def test_a_compressed_index_is_calibrated_with_the_vectors_that_searches_have(index, encoder, tmp_path):
    # With its own pooling, the tiny encoder gives all passages nearly the same vector.
    flat = build_index(IndexRequest(corpus=index.corpus, index=tmp_path / "flat", encoder=encoder, pooling="mean"))
    stored = faiss.read_index(str(flat.index / "index"))
    coarse = faiss.IndexScalarQuantizer(stored.d, faiss.ScalarQuantizer.QT_4bit, faiss.METRIC_INNER_PRODUCT)
    vectors = stored.reconstruct_n(0, stored.ntotal)
    coarse.train(vectors)
    coarse.add(vectors)
    folder = shutil.copytree(flat.index, tmp_path / "coarse")
    faiss.write_index(coarse, str(folder / "index"))
    record = json.loads((folder / "tour-index.json").read_text())
    record["sha256"]["index"] = sha256(folder / "index")
    (folder / "tour-index.json").write_text(json.dumps(record))
    request = {"corpus": index.corpus, "reranker": index.reranker, **REQUEST}
    exact = calibrate(CalibrateRequest(index=flat.index, **request)).found
    own = calibrate(CalibrateRequest(index=folder, **request)).found
    given = calibrate(CalibrateRequest(index=folder, vectors=flat.index, **request)).found
    assert len(read_scales(folder)) == 2
    assert given.scale == pytest.approx(exact.scale, rel=1e-3)
    assert own.scale != pytest.approx(exact.scale, rel=1e-3)
    index.index = str(folder)
    assert found_scale(searched(index, tmp_path, "own.trec"))["scale"] == own.scale
    assert found_scale(searched(index, tmp_path, "given.trec", vectors=flat.index))["scale"] == given.scale


def test_a_searcher_takes_the_scale_of_an_index(index):
    done = calibrate(CalibrateRequest(index=index.index, corpus=index.corpus, reranker=index.reranker, **REQUEST))
    assert given_scale(index.index, reranker=done.found.reranker) == done.found.scale
    assert given_scale(2, reranker=None) == 2
    assert given_scale(None, reranker=None) is None
    for wrong, words in [
        (index.topics, "has no scale for this re-ranker"),
        (True, "number above 0"),
        (-1.0, "number above 0"),
        (float("nan"), "number above 0"),
        ([1], "number above 0"),
    ]:
        with pytest.raises(TourError, match=words):
            given_scale(wrong, reranker=done.found.reranker)
    write_scale(index.index, done.found._replace(encoder="another", scale=7.0))
    with pytest.raises(TourError, match=r"several query encoders.*7 \(another\)"):
        given_scale(index.index, reranker=done.found.reranker)
