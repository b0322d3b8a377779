"""Qdrant: its HTTP with faults, and the files of its local mode."""

import pickle
import shutil
import sqlite3

import numpy as np
import pytest
from filled_collections import address_in, flat, load, loading, some_vectors
from qdrant_service import QdrantService

from tour_pyserini.errors import TourError
from tour_pyserini.stores.qdrant import connect
from tour_pyserini.stores.vector_database import KEY_VARIABLE
from tour_pyserini.support import http_client

VECTORS = some_vectors(120)
QUERIES = np.random.default_rng(1).standard_normal((4, 12)).astype(np.float32)


@pytest.fixture
def expected():
    return flat(VECTORS).search(QUERIES, 10)


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)
    service = QdrantService()
    yield service
    service.close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_server(service, expected, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    store = load(f"qdrant://{service.url}/C?kind=hnsw", VECTORS)
    hits = store.search(QUERIES, 10)
    assert np.array_equal(hits.ids, expected.ids) and np.array_equal(hits.similarities, expected.similarities)
    assert store.texts["doc-3"].parts[0] == "fox" and np.array_equal(store.fetch(np.array([100])), VECTORS[100:101])
    assert store.state.kind == "HNSW" and not store.state.exact
    assert {key for _, _, key in service.requests} == {"secret"}


def test_a_server_with_faults(service, expected, caplog):
    store = load(f"qdrant://{service.url}/C", VECTORS)
    service.faults += [503, "lost", 429, 500]
    assert np.array_equal(store.search(QUERIES, 10).ids, expected.ids)
    assert caplog.text.count("trying again") == 4
    for faults, word in (([503] * 6, "6 tries"), ([403], "403")):
        service.faults += faults
        with pytest.raises(TourError, match=word):
            store.search(QUERIES, 10)


def test_a_load_goes_on_after_faults_and_its_requests_have_a_limit(service, expected, monkeypatch):
    address = f"qdrant://{service.url}/C?retries=1"
    target = loading(address, VECTORS)
    monkeypatch.setattr(target.engine, "most_bytes", 2000)
    target.append([f"doc-{i}" for i in range(64)], VECTORS[:64])
    sizes = [size for path, size, _ in service.requests if path.startswith("/collections/C/points?")]
    assert len(sizes) > 10 and max(sizes) < 4000 and target.done == 64
    service.faults += ["lost"] * 2
    with pytest.raises(TourError, match="2 tries"):
        target.append([f"doc-{i}" for i in range(64, 120)], VECTORS[64:])
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 10).ids, expected.ids)


def test_files_that_would_run_code_are_not_opened(tmp_path):
    load(address_in(tmp_path, "qdrant"), VECTORS)
    copy = shutil.copytree(tmp_path / "points", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    connect(str(copy), 1).close()  # as the next process does
    with sqlite3.connect(copy / "collection" / "C" / "storage.sqlite") as database:
        database.execute("UPDATE points SET point = ?", (pickle.dumps(pytest.fail),))
    with pytest.raises(TourError, match="would load"):
        connect(str(copy), 1)
