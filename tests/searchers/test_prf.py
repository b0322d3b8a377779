"""Our rules behind Pyserini's PRF interface, against Pyserini's own."""

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourPrf, TourSearcher


@pytest.fixture
def collection(tmp_path):
    return ToyCollection(tmp_path)


def test_rocchio_and_average_equal_pyserinis(collection):
    from pyserini.search.faiss import DenseVectorAveragePrf, DenseVectorRocchioPrf

    vectors, hits = collection.searcher().batch_search(collection.queries, collection.q_ids, k=10, return_vector=True)
    pairs = [
        (TourConfig(method="average"), DenseVectorAveragePrf()),
        (TourConfig(method="rocchio", positives=3), DenseVectorRocchioPrf(0.9, 0.1, 0.1, 3, 7)),
    ]
    for config, theirs in pairs:
        ours = TourPrf(None, None, config)
        expected = theirs.get_batch_prf_q_emb(collection.q_ids, vectors, hits)
        assert ours.get_batch_prf_q_emb(collection.q_ids, vectors, hits) == pytest.approx(expected, abs=1e-6)
        one = theirs.get_prf_q_emb(vectors[0], hits["q0"])
        assert ours.get_prf_q_emb(vectors[0], hits["q0"]) == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("method", ["hard", "soft"])
def test_one_update_equals_the_searchers(collection, method, early_stopping):
    config = TourConfig(method=method, iterations=1, depth=10, early_stopping=early_stopping)
    topics = dict(zip(collection.q_ids, collection.queries, strict=True))
    vectors, hits = collection.searcher().batch_search(collection.queries, collection.q_ids, k=10, return_vector=True)
    prf = TourPrf(HashReranker(), collection.texts, config, topics=topics)
    for hit in hits["q1"]:
        hit.score = 1000.0  # whatever it was ranked by
    ours = prf.get_batch_prf_q_emb(collection.q_ids, vectors, hits)
    searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config)
    expected, _ = searcher.batch_search(collection.queries, collection.q_ids, return_vector=True)
    assert ours == pytest.approx(np.asarray(expected), abs=1e-5)


def test_no_candidates_no_update(collection):
    vector = collection.encoder.encode("query 0")
    assert np.array_equal(TourPrf(HashReranker(), collection.texts).get_prf_q_emb(vector, [], query="query 0"), vector)


def test_missing_texts_are_named(collection):
    (vector,), hits = collection.searcher().batch_search(["query 0"], ["q0"], k=3, return_vector=True)
    prf = TourPrf(HashReranker(), collection.texts)
    with pytest.raises(TourError, match=hits["q0"][0].docid):
        TourPrf(HashReranker(), {}).get_prf_q_emb(vector, hits["q0"], "query 0")
    with pytest.raises(TourError, match="'q0'"):
        prf.get_batch_prf_q_emb(["q0"], vector[None], hits)
    with pytest.raises(TourError, match="query="):
        prf.get_prf_q_emb(vector, hits["q0"])
