"""Hits of compressed indexes in exact order: the same rule for every method."""

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, ToyCollection

from tour_pyserini import FaissSearcher, TourConfig, TourError, TourSearcher
from tour_pyserini.core.method import METHODS
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.vectors import EncodedCorpus, in_order

INNER = faiss.METRIC_INNER_PRODUCT


def pq():
    return faiss.IndexPQ(DIMENSION, 2, 3, INNER)


def hnsw_pq():
    index = faiss.IndexHNSWPQ(DIMENSION, 2, 32, 3, INNER)
    index.hnsw.efConstruction = index.hnsw.efSearch = 240  # all documents are found
    return index


def sq():
    return faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_4bit, INNER)


def ivf_pq():
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(DIMENSION), DIMENSION, 4, 2, 3, INNER)
    index.nprobe = 4
    return index


KINDS = [pq, hnsw_pq, sq, ivf_pq]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("flat"))


@pytest.fixture(scope="module")
def coarse(collection, tmp_path_factory):
    """The folders of compressed indexes, by their kind's name."""
    return {kind.__name__: collection.write(kind(), tmp_path_factory.mktemp(kind.__name__)) for kind in KINDS}


def found(collection, folder, method, **options):
    """The docids of every query, by its id."""
    searcher = TourSearcher(
        FaissSearcher(str(folder), collection.encoder),
        HashReranker(),
        collection.texts,
        TourConfig(method),
        **options,
    )
    hits = searcher.batch_search(collection.queries, collection.q_ids, k=60)
    return {q_id: [hit.docid for hit in hits[q_id]] for q_id in collection.q_ids}


def test_by_hand():
    """Two documents of which a compressed index knows the signs alone: its order is that of signs."""
    vectors = np.array([[0.9, 0.1], [0.6, 0.8]], dtype=np.float32)

    class Signs:
        dimension, size, exact = 2, 2, False

        def search(self, queries, k, *, threads=1):
            return FaissIndex(flat(np.array([[1.0, 0.0], [0.0, 1.0]]))).search(queries, k, threads=threads)

        def fetch(self, ids):
            raise AssertionError("exact vectors are given")

    query = np.array([[0.4, 0.5]], dtype=np.float32)
    # Signs: 0.4 and 0.5. Exact: 0.41 and 0.64, so the order stays; for (0.6, 0.5) it is 0.6, 0.5 and 0.59, 0.76.
    both = np.concatenate([query, [[0.6, 0.5]]]).astype(np.float32)
    assert in_order(Signs(), None, None).search(both, 2).ids.tolist() == [[1, 0], [0, 1]]
    hits = in_order(Signs(), lambda ids: vectors[ids], "exact").search(both, 2)
    assert hits.ids.tolist() == [[1, 0], [1, 0]]
    assert hits.similarities.tolist() == [pytest.approx([0.64, 0.41]), pytest.approx([0.76, 0.59])]


def flat(vectors):
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors.astype(np.float32))
    return index


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_what_it_finds_on_the_exact_index(collection, coarse, method, kind):
    # Sixty documents are fewer than what is re-ordered: the order is that of the exact vectors throughout.
    folder = coarse[kind.__name__]
    exact = found(collection, collection.folder, method)
    assert found(collection, folder, method, vectors=str(collection.folder)) == exact


@pytest.mark.parametrize("method", METHODS)
def test_the_index_own_order_can_be_asked_for(collection, coarse, method):
    exact = found(collection, collection.folder, method)
    assert found(collection, coarse["pq"], method, vectors=str(collection.folder), order="index") != exact
    dense = found(collection, coarse["pq"], "dense", vectors=str(collection.folder), order="index")
    assert dense == found(collection, coarse["pq"], "dense")


def test_dense_hits_have_exact_similarities(collection, coarse):
    inner = FaissSearcher(str(coarse["pq"]), collection.encoder)
    searcher = TourSearcher(inner, config=TourConfig("dense"), vectors=str(collection.folder))
    assert searcher.order == "exact"
    for query in collection.queries:
        similarities = np.sort(collection.vectors @ collection.encoder.encode(query))[::-1]
        assert [hit.score for hit in searcher.search(query, k=60)] == pytest.approx(similarities.tolist(), abs=1e-6)


def test_functions_are_called_for_the_order_only_when_asked(collection, coarse):
    inner = FaissSearcher(str(coarse["pq"]), collection.encoder)
    asked = []

    def vectors(ids):
        asked.extend(ids.tolist())
        return collection.vectors[ids]

    config = TourConfig("dense")
    assert TourSearcher(inner, config=config, vectors=vectors).order == "index"
    searcher = TourSearcher(inner, config=config, vectors=vectors, order="exact")
    exact = found(collection, collection.folder, "dense")
    assert not asked
    assert [hit.docid for hit in searcher.search(collection.queries[0], k=60)] == exact[collection.q_ids[0]]
    assert sorted(asked) == list(range(60))


def test_an_exact_index_is_searched_as_it_is(collection):
    store = FaissIndex(flat(collection.vectors))
    stored = EncodedCorpus.open(collection.folder, docids=collection.docids, dimension=DIMENSION)
    for order in (None, "exact", "index"):
        assert in_order(store, stored, order) is in_order(store, None, order) is store


def test_refusals(collection, coarse):
    inner = FaissSearcher(str(coarse["pq"]), collection.encoder)
    with pytest.raises(TourError, match="the index is compressed, so hits cannot be put in exact order; give exact"):
        TourSearcher(inner, config=TourConfig("dense"), order="exact")
    with pytest.raises(TourError, match="there is no order 'best' of hits; choose one of exact, index"):
        TourSearcher(inner, config=TourConfig("dense"), order="best")
