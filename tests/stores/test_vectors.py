"""Flat, HNSW, IVF and PQ indexes, and the sources of exact vectors."""

import json
import logging

import faiss
import numpy as np
import pytest
from worlds import DIMENSION, HashReranker, World

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.stores.vectors import open_vectors

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
def test_exact_kinds_give_the_flat_result(kind, tmp_path):
    flat = World(tmp_path / "flat", documents=300)
    other = World(tmp_path / "other", documents=300, index=kind())
    config = TourConfig(depth=8, learning_rate=0.5)
    results = []
    for world in (flat, other):
        searcher = TourSearcher(world.searcher(), HashReranker(), world.texts, config)
        results.append(searcher.batch_search(world.queries, world.q_ids, k=20, return_vector=True))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    for q_id in flat.q_ids:
        assert [hit.docid for hit in results[0][1][q_id]] == [hit.docid for hit in results[1][1][q_id]]


@pytest.mark.parametrize("kind", [pq, ivf_pq], ids=lambda kind: kind.__name__)
def test_compressed_kinds_say_so_and_take_exact_vectors_from_elsewhere(kind, tmp_path, caplog):
    world = World(tmp_path, documents=300, index=kind())
    with caplog.at_level(logging.WARNING):
        coarse = open_vectors(None, index=world.searcher().index, docids=world.docids)
    assert "compressed" in caplog.text
    assert "--vectors" in caplog.text
    ids = np.array([5, 0, 299, 5])
    assert not np.allclose(coarse(ids), world.vectors[ids], atol=1e-3)
    flat = world.write(faiss.IndexFlatIP(DIMENSION), tmp_path / "flat")
    exact = open_vectors(str(flat), index=world.searcher().index, docids=world.docids)
    assert np.array_equal(exact(ids), world.vectors[ids])
    searcher = TourSearcher(world.searcher(), HashReranker(), world.texts, TourConfig(depth=5), vectors=str(flat))
    assert len(searcher.search("query 0", k=30)) == 30


def test_encoded_json_lines_in_another_order(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    world = World(tmp_path, index=pq())
    folder = tmp_path / "encoded"
    folder.mkdir()
    with open(folder / "embeddings.jsonl", "w") as file:
        for docid, vector in sorted(zip(world.docids, world.vectors, strict=True), key=lambda item: item[0][::-1]):
            file.write(json.dumps({"id": docid, "contents": "x", "vector": vector.tolist()}) + "\n")
    for _ in range(2):  # the second time from the kept file
        vectors = open_vectors(folder, index=world.searcher().index, docids=world.docids)
        assert np.array_equal(vectors(np.array([3, 59, 3])), world.vectors[[3, 59, 3]])


def ids_only():
    """An IndexIDMap, which must be told its ids and gives no vectors back."""
    index = faiss.IndexIDMap(faiss.IndexFlatIP(DIMENSION))
    index.add = lambda added: index.add_with_ids(added, np.arange(len(added)))
    return index


def test_an_index_that_gives_nothing_back_names_the_way_out(tmp_path):
    world = World(tmp_path, index=ids_only())
    with pytest.raises(TourError, match="--vectors"):
        TourSearcher(world.searcher(), HashReranker(), world.texts, TourConfig(depth=5))
    # Re-ranking needs no vectors.
    assert TourSearcher(world.searcher(), HashReranker(), world.texts, TourConfig.preset("rerank")).search("query 0")


def test_mismatched_sources_are_refused(tmp_path):
    world = World(tmp_path)
    index = world.searcher().index
    other = World(tmp_path / "other", documents=20)
    with pytest.raises(TourError, match="'d20'"):
        open_vectors(str(other.folder), index=index, docids=world.docids)
    with pytest.raises(TourError, match="no encoded corpus"):
        open_vectors(str(tmp_path / "nowhere"), index=index, docids=world.docids)
    compressed = world.write(pq(), tmp_path / "pq")
    with pytest.raises(TourError, match="compressed itself"):
        open_vectors(str(compressed), index=index, docids=world.docids)
