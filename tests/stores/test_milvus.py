"""Milvus: a server that is killed and started again, and what Milvus Lite cannot hold."""

import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from filled_collections import address_in, flat, load, some_vectors

from tour_pyserini.errors import TourError
from tour_pyserini.stores.vector_collection import CollectionLoading, CollectionStore, open_collection
from tour_pyserini.stores.vector_database import store_address

VECTORS = some_vectors(120)
QUERIES = np.random.default_rng(1).standard_normal((4, 12)).astype(np.float32)


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
def test_a_server_that_is_killed_and_started_again(tmp_path, port):
    expected = flat(VECTORS).search(QUERIES, 10)
    started, later = [milvus_server(tmp_path / "data", port)], threading.Timer(0, int)
    try:
        store = load(f"milvus://127.0.0.1:{port}/C?timeout=2", VECTORS)
        assert np.array_equal(store.search(QUERIES, 10).similarities, expected.similarities)
        started[0].kill()
        started[0].wait()
        later = threading.Timer(1.0, lambda: started.append(milvus_server(tmp_path / "data", port)))
        later.start()
        assert np.array_equal(store.search(QUERIES, 10).ids, expected.ids)  # it waits for the server
        later.join()
        started[1].kill()
        started[1].wait()
        impatient = CollectionStore(store.address._replace(retries=1), store.engine, store.state)
        with pytest.raises(TourError, match="2 tries"):
            impatient.search(QUERIES, 10)
    finally:
        if later.is_alive():
            later.join()  # a server that is being started ends too
        for process in started:
            process.kill()
            process.wait()


def append_long_passage(folder, port):
    address = store_address(address_in(folder, "milvus"))
    settings = {"documents": 1, "dimension": 12, "chunk": 1, "encoder_fingerprint": "none"}
    CollectionLoading(address, settings, {"a": "é" * 40_000}, bm25=False).append(["a"], VECTORS[:1])


@pytest.mark.parametrize(
    ("work", "word"),
    [
        (append_long_passage, "texts=no"),
        (lambda folder, _: open_collection(store_address(f"milvus:{folder}/lite?collection=C")), r"\.db"),
        (lambda _, port: open_collection(store_address(f"milvus://127.0.0.1:{port}/C?timeout=1")), "cannot be opened"),
    ],
)
def test_refusals(tmp_path, port, work, word):
    with pytest.raises(TourError, match=word):
        work(tmp_path, port)
