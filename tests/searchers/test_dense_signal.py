"""Searchers as signals: a second index with its own encoder, and Pyserini's hybrid search in parts."""

from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, TableEncoder, ToyCollection, build_lucene, unit

from tour_pyserini import FaissSearcher, TourConfig, TourError, TourQueryEncoder, TourSearcher
from tour_pyserini.searchers.searched_index import DenseSignal, SearchedIndex
from tour_pyserini.stores.store import as_store

SECOND = 5  # dimension of the second index


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("signals"), documents=80)


def second(collection, order=None, *, docids=None):
    """Another encoder's index of the same documents, in another order."""
    random = np.random.default_rng(5)
    vectors, queries = unit(random, 80, SECOND), unit(random, len(collection.queries), SECOND)
    order = np.arange(80) if order is None else order
    names = docids or [collection.docids[i] for i in order]
    encoder = TableEncoder(dict(zip(collection.queries, queries, strict=True)))
    return SearchedIndex(as_store(vectors[order[: len(names)]]), names, encoder)


def tour(collection, method="tour", **options):
    index = SearchedIndex(faiss.read_index(str(collection.folder / "index")), collection.docids, collection.encoder)
    return TourSearcher(index, HashReranker(), collection.texts, TourConfig(method), **options)


def test_a_second_index_finds_its_nearest_documents_by_docid(collection):
    order = np.random.default_rng(1).permutation(80)
    index = second(collection, order)
    docids, scores = DenseSignal(index)(collection.queries[:2], 100)
    query = index.query_encoder.encode(collection.queries[1])
    products = {index.docids[i]: float(vector @ query) for i, vector in enumerate(index.index.fetch(np.arange(80)))}
    assert docids[1] == sorted(products, key=products.get, reverse=True)
    assert scores[1] == pytest.approx([products[docid] for docid in docids[1]], abs=1e-6)


def test_other_documents_are_refused(collection):
    with pytest.raises(TourError, match="lacks the document 'd79'"):
        tour(collection, signals=[second(collection, docids=collection.docids[:79])])


def test_the_query_encoder_uses_signals(collection):
    def encoder(*signals):
        shared = collection.encoder, collection.searcher(), HashReranker(), collection.texts
        return TourQueryEncoder(*shared, signals=signals)

    index = second(collection)
    vectors, _ = tour(collection, signals=[index]).batch_search(
        collection.queries, collection.q_ids, return_vector=True
    )
    assert np.array_equal(encoder(index).encode_batch(collection.queries), vectors)
    assert not np.array_equal(encoder().encode_batch(collection.queries), vectors)


LETTERS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]


@pytest.fixture(scope="module")
def lucene(tmp_path_factory):
    """A Lucene index, and a FAISS index of the same documents: how often each word occurs."""
    folder = tmp_path_factory.mktemp("lucene")
    random = np.random.default_rng(0)
    texts = {f"d{i}": " ".join(random.choice(LETTERS, size=4)) for i in range(40)}
    texts |= {"d40": "zulu alpha", "d41": "alpha bravo"}
    build_lucene(folder, texts)
    index = faiss.IndexFlatIP(DIMENSION)
    noise = 0.01 * random.normal(size=(42, DIMENSION)).astype(np.float32)  # no two documents are equally similar
    index.add(np.stack([counted(text) for text in texts.values()]) + noise)
    (folder / "faiss").mkdir()
    faiss.write_index(index, str(folder / "faiss" / "index"))
    (folder / "faiss" / "docid").write_text("".join(f"{docid}\n" for docid in texts))
    return folder, texts


def counted(text, **_):
    vector = np.array([text.split().count(word) for word in LETTERS], dtype=np.float32)
    return vector / np.linalg.norm(vector)


COUNTING = SimpleNamespace(encode=counted)


@pytest.mark.slow
def test_pyserinis_hybrid_searcher_and_its_parts(lucene):
    from pyserini.search.hybrid import HybridSearcher
    from pyserini.search.lucene import LuceneSearcher

    folder, texts = lucene
    dense, sparse = FaissSearcher(str(folder / "faiss"), COUNTING), LuceneSearcher(str(folder / "lucene"))
    hybrid = HybridSearcher(dense, sparse)
    queries, ids = ["alpha bravo zulu", "echo golf"], ["q0", "q1"]

    def found(searcher, **options):
        hits = searcher.batch_search(queries, ids, k=20, **options)
        return {q_id: [(hit.docid, hit.score) for hit in hits[q_id]] for q_id in ids}

    for method in ("dense", "rerank", "tour"):
        config = TourConfig(method)
        whole = TourSearcher(hybrid, HashReranker(), texts, config)
        for signal in (sparse, str(folder / "lucene")):
            assert found(whole) == found(TourSearcher(dense, HashReranker(), texts, config, signals=[signal]))

    # Only BM25 knows the word zulu: hybrid search finds its document first, ours as Pyserini's.
    searcher = TourSearcher(hybrid, config=TourConfig("dense"))
    assert dense.search(queries[0], k=1)[0].docid == "d41"
    theirs = hybrid.search(queries[0], k0=42, k=20, alpha=1.0, normalization=True)
    assert searcher.search(queries[0], k=1)[0].docid == theirs[0].docid == "d40"
    # Weight 0 is the dense searcher; so is Pyserini's alpha of 0.
    without = TourSearcher(hybrid, config=TourConfig("dense", signal_weight=0))
    for q_id, hits in found(dense).items():
        assert [docid for docid, _ in found(without)[q_id]] == [docid for docid, _ in hits]

    # The optimised vectors in Pyserini's own hybrid search.
    encoder = TourQueryEncoder(COUNTING, hybrid, HashReranker(), texts)
    optimised = HybridSearcher(FaissSearcher(str(folder / "faiss"), encoder), sparse)
    assert optimised.search(queries[0], k0=42, k=5, alpha=1.0, normalization=True)[0].docid in texts
    vectors, _ = TourSearcher(hybrid, HashReranker(), texts).batch_search(queries, ids, return_vector=True)
    assert np.array_equal(encoder.encode_batch(queries), vectors)
