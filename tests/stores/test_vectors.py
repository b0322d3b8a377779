"""Vectors of candidates from indexes, encoded corpora and registered sources, and the exact order of hits."""

import json

import faiss
import numpy as np
import pytest
from toy_collection import DIMENSION, ToyCollection

from tour_pyserini.errors import TourError
from tour_pyserini.stores import vectors as vectors_module
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.vectors import in_order, open_vectors, register_vector_source

IDS = np.array([5, 0, 59, 5])


def made(factory):
    return faiss.index_factory(DIMENSION, factory, faiss.METRIC_INNER_PRODUCT)


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors_module, "_sources", {})  # none are registered
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return ToyCollection(tmp_path, index=made("PQ4x4"))


def store_of(folder):
    return FaissIndex(faiss.read_index(str(folder / "index")))


def opened(collection, spec):
    return open_vectors(spec, store=store_of(collection.folder), docids=collection.docids)


def test_compressed_indexes_warn_and_accept_exact_vectors(collection, tmp_path, caplog):
    assert not np.allclose(opened(collection, None)(IDS), collection.vectors[IDS], atol=1e-3)
    assert "compressed" in caplog.text and "--vectors" in caplog.text
    flat = collection.write(made("Flat"), tmp_path / "flat")
    lines = write_lines(tmp_path / "encoded", records_of(collection)[::-1])  # in another order
    for spec in (str(flat), flat, collection.vectors.__getitem__, lines, lines):  # then from the converted file
        assert np.array_equal(opened(collection, spec)(IDS), collection.vectors[IDS])


def write_lines(folder, records):
    folder.mkdir(exist_ok=True)
    (folder / "embeddings.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def records_of(collection):
    rows = zip(collection.docids, collection.vectors.tolist(), strict=True)
    return [{"id": docid, "vector": row} for docid, row in rows]


def wrong(look_up):
    def register(collection, folder):
        register_vector_source("wrong", lambda rest, *, docids, dimension: look_up)
        return "wrong:"

    return register


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (lambda collection, folder: write_lines(folder, records_of(collection)[:-1]), "'d59'"),
        (lambda collection, folder: write_lines(folder, []), "no vectors"),
        (lambda collection, folder: write_lines(folder, [{"id": "a b", "vector": [1.0]}]), "line 1.*`id`"),
        (lambda collection, folder: write_lines(folder, [{"id": "e", "vector": []}]), "`vector`"),
        (lambda collection, folder: ToyCollection(folder, documents=20).folder, "'d20'"),
        (lambda collection, folder: folder / "nowhere", "not an encoded corpus"),
        (lambda collection, folder: collection.write(made("PQ4x4"), folder), "compressed too"),
        (lambda collection, folder: write_lines(folder, [{"id": "e", "vector": [1.0]}]), "1 dimensions"),
        (lambda collection, folder: register_vector_source("encode", len), "name"),
        (lambda collection, folder: "other:x", "other:x"),
        (wrong(lambda ids: np.zeros((len(ids), DIMENSION + 1))), r"array \[1, 9\]"),
        (wrong(lambda ids: np.full((len(ids), DIMENSION), np.nan)), "NaN"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(collection, tmp_path, spec, word):
    with pytest.raises(TourError, match=word):
        opened(collection, spec(collection, tmp_path / "encoded"))(np.array([7]))


def test_a_source_is_opened_by_its_name_unless_there_is_such_a_folder(collection, tmp_path, monkeypatch):
    asked = []

    def open_array(path, *, docids, dimension):
        asked.append((path, list(docids), dimension))
        return lambda ids: collection.vectors[ids].astype(np.float64)

    register_vector_source("array", open_array)
    vectors = opened(collection, "array:a:b.npy")  # only the first colon ends the name
    assert asked == [("a:b.npy", collection.docids, DIMENSION)]
    assert np.array_equal(vectors(IDS), collection.vectors[IDS]) and vectors(IDS).dtype == np.float32
    assert vectors(IDS[:0]).shape == (0, DIMENSION)
    monkeypatch.chdir(tmp_path)
    collection.write(made("Flat"), tmp_path / "array:flat")
    assert np.array_equal(opened(collection, "array:flat")(IDS), collection.vectors[IDS]) and len(asked) == 1


def test_hits_of_a_compressed_index_are_put_in_exact_order(collection, tmp_path):
    store, flat = store_of(collection.folder), collection.write(made("Flat"), tmp_path / "flat")
    queries = collection.vectors[:4] + 0.1
    exact = opened(collection, flat)
    expected = store_of(flat).search(queries, 9)
    hits = in_order(store, exact).search(queries, 9)
    assert np.array_equal(hits.ids, expected.ids)
    assert hits.similarities == pytest.approx(expected.similarities, abs=1e-6)
    for other in (None, collection.vectors.__getitem__):
        assert in_order(store, other) is store
