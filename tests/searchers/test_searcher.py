import time
from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from toy_collection import HashReranker, TableEncoder, ToyCollection

from tour_pyserini import FaissSearcher, TourConfig, TourError, TourQueryEncoder, TourSearcher
from tour_pyserini.core.method import METHODS, StopReason


@pytest.fixture
def collection(tmp_path):
    return ToyCollection(tmp_path)


def tour(collection, config=None, **options):
    return TourSearcher(
        collection.searcher(), HashReranker(), collection.texts, config or TourConfig(depth=5), **options
    )


def test_dense_gives_what_faiss_searcher_gives(collection):
    ours, theirs = tour(collection, TourConfig.preset("dense")), collection.searcher()
    for k in (1, 10, 60):
        assert ours.search("query 3", k=k) == theirs.search("query 3", k=k)
        assert ours.batch_search(collection.queries, collection.q_ids, k=k, threads=2) == theirs.batch_search(
            collection.queries, collection.q_ids, k=k, threads=2
        )


def test_return_vector_gives_optimised_queries_and_the_hits_own_vectors(collection):
    searcher = tour(collection, TourConfig(method="hard", depth=5, learning_rate=0.5))
    vectors, hits = searcher.batch_search(collection.queries, collection.q_ids, k=12, return_vector=True)
    assert vectors.shape == (7, 8)
    first = np.stack([collection.encoder.encode(query) for query in collection.queries])
    assert not np.allclose(vectors, first)
    for hit in hits["q2"]:
        assert np.array_equal(hit.vectors, collection.vectors[collection.docids.index(hit.docid)])
    vector, alone = searcher.search("query 2", k=12, return_vector=True)
    assert vector.shape == (1, 8)
    assert vector[0] == pytest.approx(vectors[2], abs=1e-6)
    assert [hit.docid for hit in alone] == [hit.docid for hit in hits["q2"]]
    # Searching with the optimised vector as it is retrieves the same documents.
    assert {hit.docid for hit in searcher.search(vector, k=12)} == {hit.docid for hit in alone}


def test_no_pair_is_scored_twice(collection):
    reranker = HashReranker()
    config = TourConfig(method="hard", depth=5, learning_rate=0.5)
    searcher = TourSearcher(collection.searcher(), reranker, collection.texts, config)
    searcher.batch_search(collection.queries, collection.q_ids)
    assert len(reranker.asked) == len(set(reranker.asked)) == searcher.costs.pairs == searcher.costs.scored
    assert searcher.costs.queries == 7
    assert set(searcher.costs.seconds) >= {"encode", "search", "label", "vectors"}


@pytest.fixture(scope="module")
def same(tmp_path_factory):
    """A collection and a compressed index of it: sixty documents are fewer than what is re-ordered exactly."""
    flat = ToyCollection(tmp_path_factory.mktemp("flat"))
    return flat, flat.write(faiss.IndexPQ(8, 2, 3, faiss.METRIC_INNER_PRODUCT), tmp_path_factory.mktemp("pq"))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_on_a_compressed_index_what_it_finds_on_the_exact_one(same, method):
    flat, folder = same

    def found(searcher, **options):
        made = TourSearcher(searcher, HashReranker(), flat.texts, TourConfig(method), **options)
        hits = made.batch_search(flat.queries, flat.q_ids, k=60)
        return {q_id: [hit.docid for hit in hits[q_id]] for q_id in flat.q_ids}

    compressed = FaissSearcher(str(folder), flat.encoder)
    assert found(compressed, vectors=str(flat.folder)) == found(flat.searcher())


def test_query_is_never_its_own_candidate(collection):
    collection.docids[5] = "q0"
    collection.vectors[5] = collection.encoder.encode("query 0")
    collection.texts["q0"] = "query 0"
    collection.write(faiss.IndexFlatIP(8))
    reranker = HashReranker()
    searcher = TourSearcher(collection.searcher(), reranker, collection.texts, TourConfig(depth=5), remove_query=True)
    hits = searcher.batch_search(collection.queries, collection.q_ids, k=60)
    assert "q0" not in {hit.docid for hit in hits["q0"]}
    assert len(hits["q0"]) == 59
    assert "q0" in {hit.docid for hit in hits["q1"]}
    assert ("query 0", "query 0") not in reranker.asked


def test_stock_searcher_with_our_encoder_retrieves_what_tour_retrieves(collection):
    config = TourConfig(method="hard", depth=5, learning_rate=0.5, score_weight=0.0)
    encoder = TourQueryEncoder(collection.encoder, collection.searcher(), HashReranker(), collection.texts, config)
    stock = FaissSearcher(str(collection.folder), encoder)
    ours = tour(collection, config).batch_search(collection.queries, collection.q_ids, k=15)
    theirs = stock.batch_search(collection.queries, collection.q_ids, k=15)
    for q_id in collection.q_ids:
        # lambda = 0: TouR's final order is the retrieval's
        assert [hit.docid for hit in ours[q_id]] == [hit.docid for hit in theirs[q_id]]
    alone = [hit.docid for hit in stock.search("query 4", k=15)]
    assert alone == [hit.docid for hit in theirs["q4"]]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda w: tour(w).batch_search(["query 0", "query 1"], ["q", "q"]), ["'q'", "twice"]),
        (lambda w: tour(w).search("  "), ["empty"]),
        (lambda w: TourSearcher(w.searcher(), HashReranker(), {}, TourConfig()).search("query 0"), ["'d", "same coll"]),
        (lambda w: TourSearcher("index", HashReranker(), w.texts), ["FaissSearcher", "str"]),
        (lambda w: tour(w).batch_search([np.zeros(8)], ["q"]), ["'q'", "ndarray"]),
        (lambda w: TourQueryEncoder(w.encoder, "no-index", HashReranker(), w.texts), ["no-index"]),
        (lambda w: TourSearcher(w.searcher(), HashReranker()), ["texts"]),
        (lambda w: _scored(w, lambda pairs: [float("nan")] * len(pairs)).search("query 0"), ["nan", "query 0"]),
        (lambda w: _scored(w, lambda pairs: [0.0]).search("query 0"), ["10"]),
        (lambda w: _encoder(w, np.zeros(5)).search("query 0"), ["5 dimensions", "8"]),
        (lambda w: _encoder(w, np.full(8, np.nan)).search("query 0"), ["NaN"]),
    ],
)
def test_bad_input_is_one_sentence(collection, change, names):
    with pytest.raises(TourError) as caught:
        change(collection)
    assert all(name in str(caught.value) for name in names)
    assert "\n" not in str(caught.value)


def _scored(collection, predict):
    return TourSearcher(collection.searcher(), SimpleNamespace(predict=predict), collection.texts, TourConfig())


def _encoder(collection, vector):
    collection.encoder = TableEncoder({"query 0": vector})
    return tour(collection)


BEFORE_THE_END = {"depth": 5, "iterations": 3, "budget": 7, "early_stopping": False, "learning_rate": 2.0}
SPENT = [TourConfig(method, **BEFORE_THE_END) for method in ("hard", "soft", "top")]


@pytest.mark.parametrize("config", [*map(TourConfig, METHODS), *SPENT], ids=lambda config: config.method)
def test_the_first_hits_do_not_depend_on_how_many_are_asked_for(collection, config):
    for query in collection.queries:
        short, long = (tour(collection, config).search(query, k=k) for k in (7, 60))
        assert short == long[:7]


def test_of_a_docid_that_occurs_twice_the_best_hit_stays_in_its_place(collection):
    docids = [hit.docid for hit in tour(collection, TourConfig("dense")).search("query 1", k=60)]
    collection.docids[collection.docids.index(docids[5])] = docids[0]
    collection.write(faiss.IndexFlatIP(8))
    hits = tour(collection, TourConfig("dense")).search("query 1", k=60, remove_dups=True)
    assert [hit.docid for hit in hits] == docids[:5] + docids[6:]


def test_a_deadline_ends_labels_in_time(collection):
    class Slow(HashReranker):
        def predict(self, pairs):
            time.sleep(0.01 * len(pairs))
            return super().predict(pairs)

    reranker = Slow()
    searcher = TourSearcher(collection.searcher(), reranker, collection.texts, TourConfig(budget=60, depth=30))
    searcher.search("query 1")  # whatever is loaded first
    reranker.asked.clear()
    start = time.monotonic()
    hits = searcher.search("query 2", k=60, deadline=0.2)
    assert time.monotonic() - start < 0.4
    assert len(hits) == 60 and 0 < len(reranker.asked) < 30
    *_, last = searcher.rounds("query 2", deadline=0.0001)
    assert last.stop is StopReason.DEADLINE and not last.labels


def test_a_budget_of_one_query(collection):
    reranker = HashReranker()
    searcher = TourSearcher(collection.searcher(), reranker, collection.texts)
    searcher.search("query 1", budget=3)
    assert len(reranker.asked) == 3 and searcher.config.budget == 30
    with pytest.raises(TourError, match="budget"):
        tour(collection, TourConfig("rerank")).search("query 1", budget=3)
