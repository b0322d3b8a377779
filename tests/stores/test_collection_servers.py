"""Collections on servers: Milvus Lite's own server, killed and started again, and Qdrant's HTTP with faults."""

import socket
import subprocess
import sys
import threading
import time

import faiss
import numpy as np
import pytest
from filled_collections import load, loading, some_vectors
from qdrant_service import QdrantService

from tour_pyserini.errors import TourError
from tour_pyserini.stores.engines.collection_store import CollectionStore, open_collection
from tour_pyserini.stores.engines.store_address import KEY_VARIABLE, store_address
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.support import http_client

VECTORS = some_vectors(120)
QUERIES = np.random.default_rng(1).standard_normal((4, 12)).astype(np.float32)


@pytest.fixture
def expected():
    index = faiss.IndexFlatIP(VECTORS.shape[1])
    index.add(VECTORS)
    return FaissIndex(index).search(QUERIES, 10)


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)


@pytest.fixture
def qdrant(quick):
    service = QdrantService()
    yield service
    service.close()


def milvus_server(folder, port):
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", folder, "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*map(str, command), "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.1)
    process.kill()
    raise RuntimeError("the server did not start")


@pytest.mark.slow
def test_a_milvus_server_that_is_killed_and_started_again(tmp_path, port, expected):
    address = f"milvus://127.0.0.1:{port}/C?timeout=2"
    server = milvus_server(tmp_path / "data", port)
    started, later = [server], threading.Timer(0, int)
    try:
        store = load(address, VECTORS)
        assert np.array_equal(store.search(QUERIES, 10).similarities, expected.similarities)
        server.kill()
        server.wait()
        later = threading.Timer(1.0, lambda: started.append(milvus_server(tmp_path / "data", port)))
        later.start()
        assert np.array_equal(store.search(QUERIES, 10).ids, expected.ids)  # it waits for the server
        later.join()
        server = started[1]
        server.kill()
        server.wait()
        impatient = CollectionStore(store.address._replace(retries=1), store._engine, store.state)
        with pytest.raises(TourError, match=r"gave no answer in 2 tries .*; start it again, then run the command"):
            impatient.search(QUERIES, 10)
    finally:
        if later.is_alive():
            later.join()  # a server that is being started ends too
        for process in started:
            process.kill()
            process.wait()


def test_a_qdrant_server(qdrant, expected, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    store = load(f"qdrant://{qdrant.url}/C?kind=hnsw", VECTORS)
    hits = store.search(QUERIES, 10)
    assert np.array_equal(hits.ids, expected.ids) and np.array_equal(hits.similarities, expected.similarities)
    assert store.texts["doc-3"].parts[0] == "fox" and np.array_equal(store.fetch(np.array([100])), VECTORS[100:101])
    assert store.state.kind == "HNSW" and not store.state.exact
    assert {key for _, _, key in qdrant.requests} == {"secret"} and "secret" not in repr(store.description())


def test_a_qdrant_server_with_faults(qdrant, expected, caplog):
    store = load(f"qdrant://{qdrant.url}/C", VECTORS)
    qdrant.faults += [503, "lost", 429, 500]
    assert np.array_equal(store.search(QUERIES, 10).ids, expected.ids)
    assert caplog.text.count("trying again") == 4
    qdrant.faults += [503] * 6
    with pytest.raises(TourError, match=rf"qdrant:http://{qdrant.url}\?collection=C gave no answer in 6 tries"):
        store.search(QUERIES, 10)
    qdrant.faults += [403]
    with pytest.raises(TourError, match=r"refuses a request \(.*403"):
        store.search(QUERIES, 10)


def test_a_load_goes_on_after_faults(qdrant, expected):
    address = f"qdrant://{qdrant.url}/C?retries=1"
    target = loading(address, VECTORS)
    target.append([f"doc-{i}" for i in range(64)], VECTORS[:64])
    qdrant.faults += ["lost"] * 2
    with pytest.raises(TourError, match="gave no answer in 2 tries"):
        target.append([f"doc-{i}" for i in range(64, 120)], VECTORS[64:])
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 10).ids, expected.ids)


def test_requests_of_a_load_have_a_limit(qdrant, monkeypatch):
    target = loading(f"qdrant://{qdrant.url}/C", VECTORS)
    monkeypatch.setattr(target._engine, "most_bytes", 2000)
    target.append([f"doc-{i}" for i in range(64)], VECTORS[:64])
    sizes = [size for path, size, _ in qdrant.requests if path.startswith("/collections/C/points?")]
    assert len(sizes) > 10 and max(sizes) < 4000 and target.done == 64


@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_a_server_that_is_not_there(engine, port):
    with pytest.raises(TourError, match=rf"{engine} cannot be opened at http://127.0.0.1:{port} .*; start it or check"):
        open_collection(store_address(f"{engine}://127.0.0.1:{port}/C?timeout=1"))
