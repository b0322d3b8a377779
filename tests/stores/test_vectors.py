"""Vectors of candidates from flat, HNSW, IVF and PQ indexes, encoded corpora and registered sources."""

import json
import logging

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.encoders.encoded_queries import write_encoded_queries
from tour_pyserini.search import main as search
from tour_pyserini.stores import vectors as vectors_module
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.vectors import open_vectors, register_vector_source

INNER = faiss.METRIC_INNER_PRODUCT


def hnsw():
    index = faiss.IndexHNSWFlat(DIMENSION, 16, INNER)
    index.hnsw.efSearch = 300  # the whole corpus: exact
    return index


def ivf():
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(DIMENSION), DIMENSION, 4, INNER)
    index.nprobe = 4
    return index


def pq():
    return faiss.IndexPQ(DIMENSION, 4, 4, INNER)


def ivf_pq():
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(DIMENSION), DIMENSION, 4, 4, 4, INNER)
    index.nprobe = 4
    return index


@pytest.mark.parametrize("kind", [hnsw, ivf], ids=lambda kind: kind.__name__)
def test_exact_indexes_give_the_result_of_a_flat_index(kind, tmp_path):
    flat = ToyCollection(tmp_path / "flat", documents=300)
    other = ToyCollection(tmp_path / "other", documents=300, index=kind())
    config = TourConfig(depth=8)
    results = []
    for collection in (flat, other):
        searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config)
        results.append(searcher.batch_search(collection.queries, collection.q_ids, k=20, return_vector=True))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    for q_id in flat.q_ids:
        assert [hit.docid for hit in results[0][1][q_id]] == [hit.docid for hit in results[1][1][q_id]]


@pytest.mark.parametrize("kind", [pq, ivf_pq], ids=lambda kind: kind.__name__)
def test_compressed_indexes_warn_and_accept_exact_vectors(kind, tmp_path, caplog):
    collection = ToyCollection(tmp_path, documents=300, index=kind())
    with caplog.at_level(logging.WARNING):
        coarse = open_vectors(None, store=FaissIndex(collection.searcher().index), docids=collection.docids)
    assert "compressed" in caplog.text
    assert "--vectors" in caplog.text
    ids = np.array([5, 0, 299, 5])
    assert not np.allclose(coarse(ids), collection.vectors[ids], atol=1e-3)
    flat = collection.write(faiss.IndexFlatIP(DIMENSION), tmp_path / "flat")
    exact = open_vectors(str(flat), store=FaissIndex(collection.searcher().index), docids=collection.docids)
    assert np.array_equal(exact(ids), collection.vectors[ids])
    searcher = TourSearcher(
        collection.searcher(), HashReranker(), collection.texts, TourConfig(depth=5), vectors=str(flat)
    )
    assert len(searcher.search("query 0", k=30)) == 30


def test_encoded_json_lines_may_have_another_order(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    collection = ToyCollection(tmp_path, index=pq())
    folder = tmp_path / "encoded"
    folder.mkdir()
    with open(folder / "embeddings.jsonl", "w") as file:
        for docid, vector in sorted(
            zip(collection.docids, collection.vectors, strict=True), key=lambda item: item[0][::-1]
        ):
            file.write(json.dumps({"id": docid, "contents": "x", "vector": vector.tolist()}) + "\n")
    for _ in range(2):  # the second time from the cached file
        vectors = open_vectors(folder, store=FaissIndex(collection.searcher().index), docids=collection.docids)
        assert np.array_equal(vectors(np.array([3, 59, 3])), collection.vectors[[3, 59, 3]])


def ids_only():
    """An IndexIDMap, which needs ids when vectors are added and cannot return vectors."""
    index = faiss.IndexIDMap(faiss.IndexFlatIP(DIMENSION))
    index.add = lambda added: index.add_with_ids(added, np.arange(len(added)))
    return index


def test_an_index_that_cannot_return_vectors_asks_for_vectors(tmp_path):
    collection = ToyCollection(tmp_path, index=ids_only())
    with pytest.raises(TourError, match="--vectors"):
        TourSearcher(collection.searcher(), HashReranker(), collection.texts, TourConfig(depth=5))
    # Re-ranking needs no vectors.
    assert TourSearcher(collection.searcher(), HashReranker(), collection.texts, TourConfig.preset("rerank")).search(
        "query 0"
    )


def test_an_encoded_corpus_that_does_not_fit_is_refused(tmp_path):
    collection = ToyCollection(tmp_path)
    index = collection.searcher().index
    other = ToyCollection(tmp_path / "other", documents=20)
    with pytest.raises(TourError, match="'d20'"):
        open_vectors(str(other.folder), store=FaissIndex(index), docids=collection.docids)
    with pytest.raises(TourError, match="is not an encoded corpus"):
        open_vectors(str(tmp_path / "nowhere"), store=FaissIndex(index), docids=collection.docids)
    compressed = collection.write(pq(), tmp_path / "pq")
    with pytest.raises(TourError, match="is compressed too"):
        open_vectors(str(compressed), store=FaissIndex(index), docids=collection.docids)


@pytest.fixture
def sources(monkeypatch):
    """No registered sources, before and after the test."""
    monkeypatch.setattr(vectors_module, "_sources", {})


class ArraySource:
    """Vectors in a .npy file, in the order of the index; remembers its arguments and the positions it looks up."""

    def __init__(self):
        self.opened, self.positions = [], []

    def __call__(self, path, *, docids, dimension):
        self.opened.append((path, list(docids), dimension))
        array = np.load(path)

        def look_up(positions):
            self.positions += positions.tolist()
            return array[positions]

        return look_up


def test_a_registered_source_gives_the_vectors_of_candidates(tmp_path, sources):
    collection, source = ToyCollection(tmp_path, index=pq()), ArraySource()
    path = str(tmp_path / "a:b.npy")  # only the first colon ends the name
    np.save(path, collection.vectors)
    register_vector_source("array", source)
    index = collection.searcher().index
    vectors = open_vectors(f"array:{path}", store=FaissIndex(index), docids=collection.docids)
    assert source.opened == [(path, collection.docids, DIMENSION)]
    ids = np.array([5, 0, 59, 5])
    assert np.array_equal(vectors(ids), collection.vectors[ids])
    assert vectors(ids).dtype == np.float32
    assert vectors(ids[:0]).shape == (0, DIMENSION)


def test_a_searcher_accepts_the_name_of_a_registered_source(tmp_path, sources):
    collection = ToyCollection(tmp_path)
    np.save(tmp_path / "vectors.npy", collection.vectors)
    register_vector_source("array", ArraySource())
    results = [
        TourSearcher(collection.searcher(), HashReranker(), collection.texts, TourConfig(depth=5), vectors=spec).search(
            "query 0"
        )
        for spec in (None, f"array:{tmp_path / 'vectors.npy'}")
    ]
    assert results[0] == results[1]


def test_the_search_command_accepts_the_name_of_a_registered_source(tmp_path, sources):
    collection, source = ToyCollection(tmp_path, index=pq()), ArraySource()
    np.save(tmp_path / "vectors.npy", collection.vectors)
    register_vector_source("array", source)
    pairs = list(zip(collection.q_ids, collection.queries, strict=True))
    (tmp_path / "topics.tsv").write_text("".join(f"{q_id}\t{query}\n" for q_id, query in pairs))
    queries = np.stack([collection.encoder.encode(query) for query in collection.queries])
    write_encoded_queries(tmp_path / "queries", collection.q_ids, collection.queries, queries)
    flags = {
        "topics": tmp_path / "topics.tsv",
        "index": collection.folder,
        "encoded-queries": tmp_path / "queries",
        "method": "rocchio",  # reads vectors and needs no re-ranker
        "vectors": f"array:{tmp_path / 'vectors.npy'}",
        "hits": 10,
        "output": tmp_path / "run.trec",
    }
    search([str(word) for name, value in flags.items() for word in (f"--{name}", value)])
    assert source.opened == [(str(tmp_path / "vectors.npy"), collection.docids, DIMENSION)]
    assert source.positions
    assert len((tmp_path / "run.trec").read_text().splitlines()) == 10 * len(collection.queries)


def test_an_existing_folder_with_a_colon_is_an_encoded_corpus(tmp_path, sources, monkeypatch):
    collection, ids = ToyCollection(tmp_path), np.array([3, 1])
    monkeypatch.chdir(tmp_path)
    register_vector_source("array", lambda *_, **__: pytest.fail("the source is opened"))
    for name in ("array:flat", "other:flat", str(tmp_path / "c:d")):
        collection.write(faiss.IndexFlatIP(DIMENSION), tmp_path / name)
        vectors = open_vectors(name, store=FaissIndex(collection.searcher().index), docids=collection.docids)
        assert np.array_equal(vectors(ids), collection.vectors[ids])
    with pytest.raises(TourError, match=r"no/such:folder is not an encoded corpus"):
        open_vectors("no/such:folder", store=FaissIndex(collection.searcher().index), docids=collection.docids)


def test_unknown_sources_are_refused(tmp_path, sources):
    collection = ToyCollection(tmp_path)
    index = collection.searcher().index
    with pytest.raises(TourError, match=r"unknown vector source 'array' \(none is registered\)"):
        open_vectors("array:x", store=FaissIndex(index), docids=collection.docids)
    register_vector_source("table", ArraySource())
    with pytest.raises(TourError, match=r"unknown vector source 'array' \(registered: table\).* no folder array:x"):
        open_vectors("array:x", store=FaissIndex(index), docids=collection.docids)


def test_names_of_sources_are_checked(sources):
    register_vector_source("array", ArraySource())
    with pytest.raises(TourError, match="'array' is already registered"):
        register_vector_source("array", ArraySource())
    for name in ("", "encode", "a:b", "a/b", "1", None):
        with pytest.raises(TourError, match=f"cannot have the name {name!r}"):
            register_vector_source(name, ArraySource())
    with pytest.raises(TourError, match="'other' needs a function that opens it, not 'vectors'"):
        register_vector_source("other", "vectors")


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (lambda ids: np.zeros((len(ids), DIMENSION + 1)), r"shape \[2, 9\] for 2 positions; it must return \[2, 8\]"),
        (lambda ids: np.zeros((len(ids) + 1, DIMENSION)), r"shape \[3, 8\] for 2 positions"),
        (lambda ids: np.zeros(DIMENSION), r"shape \[8\]"),
        (lambda ids: [[1.0], [1.0, 2.0]], "must return an array of numbers"),
        (lambda ids: None, r"shape \[\] for 2 positions"),
        (lambda ids: np.array([[0.0] * DIMENSION, [np.nan] * DIMENSION]), "NaN or infinity for document 'd7'"),
    ],
)
def test_wrong_vectors_of_a_source_are_refused(tmp_path, sources, look_up, message):
    collection = ToyCollection(tmp_path)
    register_vector_source("wrong", lambda rest, *, docids, dimension: look_up)
    vectors = open_vectors("wrong:", store=FaissIndex(collection.searcher().index), docids=collection.docids)
    with pytest.raises(TourError, match=f"the vector source 'wrong' .*({message})"):
        vectors(np.array([4, 7]))


def test_a_source_that_does_not_return_a_function_is_refused(tmp_path, sources):
    collection = ToyCollection(tmp_path)
    register_vector_source("wrong", lambda rest, *, docids, dimension: np.zeros((60, 8)))
    with pytest.raises(TourError, match="'wrong' must return a function from positions to vectors, not ndarray"):
        open_vectors("wrong:x", store=FaissIndex(collection.searcher().index), docids=collection.docids)
