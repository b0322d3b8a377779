"""Collections of Milvus, Qdrant and PostgreSQL against FAISS: hits, loading, docids and passages, faults, refusals."""

import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from filled_collections import (
    CHUNK,
    ENGINES,
    address_in,
    docids_of,
    load,
    loading,
    postgres,
    some_vectors,
    texts_of,
)
from qdrant_service import QdrantService

from tour_pyserini.data.texts import UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.stores.qdrant import connect
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.stores.store import Store, as_store
from tour_pyserini.stores.vector_collection import CollectionStore
from tour_pyserini.stores.vector_database import KEY_VARIABLE, open_engine, store_address
from tour_pyserini.support import http_client

VECTORS = some_vectors()
LONG = dict.fromkeys(docids_of(VECTORS), "é" * 40_000)
QUERIES = np.random.default_rng(1).standard_normal((9, 12)).astype(np.float32)


@pytest.fixture(scope="module", params=ENGINES)
def store(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines") / "50% #1"  # a folder of any name
    folder.mkdir()
    return load(address_in(folder, request.param), VECTORS, bm25=request.param != "pgvector")


@pytest.mark.parametrize("k", [1, 10, 190, 500])
def test_the_hits_and_the_bits_of_a_flat_faiss_index(store, k):
    expected, hits = as_store(VECTORS).search(QUERIES, k), store.search(QUERIES, k)
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.similarities, expected.similarities)
    alone = store.search(QUERIES[4:5], k)
    assert np.array_equal(alone.ids, expected.ids[4:5]) and isinstance(store, Store) and store.exact


def test_vectors_docids_and_passages(store, monkeypatch):
    ids = np.array([7, 199, 7, 0])
    assert np.array_equal(store.fetch(ids), VECTORS[ids])
    assert list(store.docids) == docids_of(VECTORS) and store.docids[150] == "doc-150"
    texts = texts_of(VECTORS)
    assert dict(store.texts) == texts
    store.texts.load(["doc-0", "doc-1"])
    assert all(store.texts[docid].parts == texts[docid].parts for docid in ("doc-0", "doc-1", "doc-2"))
    with pytest.raises(UnknownDocument):
        store.texts["other"]
    hits = store.search(QUERIES, 5)
    monkeypatch.setattr(store.engine, "get", lambda *_, **__: pytest.fail("vectors of hits are asked for again"))
    assert np.array_equal(store.fetch(hits.ids[3]), VECTORS[hits.ids[3]])


def test_bm25_of_a_collection(store):
    if store.address.engine == "pgvector":
        with pytest.raises(TourError, match="no BM25"):
            open_signal(str(store.address))
        return
    docids, scores = open_signal(str(store.address))(["word42 whale"], 200)
    assert docids[0][0] == "doc-42" and len(docids[0]) == 68 and min(scores[0]) > 0  # 67 whales, one word42
    assert scores[0] == sorted(scores[0], reverse=True)


def test_requests_have_the_size_that_an_engine_takes(store, monkeypatch):
    sizes, search = [], store.engine.search

    def counted(address, state, vectors, k, wanted):
        sizes.append(len(vectors) * k)
        return search(address, state, vectors, k, wanted)

    monkeypatch.setattr(store.engine, "search", counted)
    monkeypatch.setattr(store.engine, "most_bytes", 50 * (1024 + 4 * 12))
    assert np.array_equal(store.search(QUERIES, 3).ids, as_store(VECTORS).search(QUERIES, 3).ids)
    assert len(sizes) == 5 and max(sizes) <= 50
    assert np.array_equal(store.fetch(np.arange(200)), VECTORS)
    assert store.search(QUERIES, 50).ids.shape == (9, 50)
    with pytest.raises(TourError, match="at most 50"):
        store.search(QUERIES, 51)


def test_ties_that_reach_beyond_the_extra_hits(tmp_path):
    vectors = np.ones((60, 3), dtype=np.float32)
    for engine in ENGINES:
        assert load(address_in(tmp_path, engine), vectors).search(vectors[:1], 2).ids.tolist() == [[59, 58]]


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("milvus", "&kind=hnsw&M=8&efC=40"),
        ("milvus", "&kind=ivf&nlist=4&nprobe=4"),
        ("pgvector", "&kind=hnsw&M=8&efC=40&ef=60"),
    ],
)
def test_approximate_indexes_give_exact_similarities(tmp_path, engine, options):
    store = load(address_in(tmp_path, engine, options=options), VECTORS)
    assert not store.state.exact
    hits, expected = store.search(QUERIES, 10), as_store(VECTORS).search(QUERIES, 10)
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(hits.ids, expected.ids, strict=True)])
    assert found > 0.9  # all lists are searched, or a graph of 200 nodes with ef 128
    assert np.allclose(hits.similarities, np.take_along_axis(QUERIES @ VECTORS.T, hits.ids, axis=1), atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_load_goes_on(tmp_path, engine):
    address = address_in(tmp_path, engine)
    first = loading(address, VECTORS)
    first.append(docids_of(VECTORS)[:CHUNK], VECTORS[:CHUNK])
    with pytest.raises(TourError, match=f"holds {CHUNK} of 200"):
        CollectionStore.open(store_address(address))
    # Killed within the second chunk: some of its rows have arrived.
    first.append(docids_of(VECTORS)[CHUNK : CHUNK + 5], VECTORS[CHUNK : CHUNK + 5])
    assert loading(address, VECTORS).done == CHUNK
    with pytest.raises(TourError, match="encoder_fingerprint was"):
        loading(address, VECTORS, encoder_fingerprint="other")
    assert np.array_equal(load(address, VECTORS).search(QUERIES, 20).ids, as_store(VECTORS).search(QUERIES, 20).ids)
    with pytest.raises(TourError, match="complete already"):
        loading(address, VECTORS)


def made_by_others(folder, engine):
    address = store_address(address_in(folder, engine, "foreign"))
    if engine == "pgvector":
        import psycopg

        with psycopg.connect(address.location) as connection:
            connection.execute('CREATE TABLE "foreign" (x int)')
    else:
        open_engine(address).create(address, 3, "", bm25=False)
    return str(address)


def open_address(text):
    return CollectionStore.open(store_address(text))


@pytest.mark.parametrize(
    ("work", "word", "engines"),
    [
        (lambda *at: open_signal(str(load(address_in(*at, "t", "&texts=no"), VECTORS).address)), "no BM25", ENGINES),
        (lambda *at: load(address_in(*at, "o", "&texts=no"), VECTORS, bm25=True), "texts=no", ENGINES),
        (lambda *at: load(address_in(*at, "B"), VECTORS, bm25=True), "no BM25", ["pgvector"]),
        (lambda *at: open_address(address_in(*at, "missing")), "not exist", ENGINES),
        (lambda *at: open_address(made_by_others(*at)), "another program", ENGINES),
        (lambda *at: load(made_by_others(*at), VECTORS), "another program", ENGINES),
        (lambda *at: load(address_in(*at), VECTORS, texts=LONG), "texts=no", ["milvus"]),
        (lambda folder, _: open_address(f"milvus:{folder}/lite?collection=C"), r"\.db", ["milvus"]),
        (lambda *_: open_address("milvus://127.0.0.1:9/C?timeout=1"), "cannot be opened", ["milvus"]),
        (lambda *_: open_address("postgresql://127.0.0.1:9/x?timeout=1#C"), "cannot be opened", ["pgvector"]),
        (lambda *_: open_address(f"qdrant:{__file__}?collection=C"), "cannot be opened", ["qdrant"]),
    ],
)
def test_what_is_refused(tmp_path_factory, work, word, engines):
    for engine in engines:
        with pytest.raises(TourError, match=word):
            work(tmp_path_factory.mktemp(engine), engine)


def test_files_that_would_run_code_are_not_opened(tmp_path):
    load(address_in(tmp_path, "qdrant"), VECTORS)
    copy = shutil.copytree(tmp_path / "points", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    connect(str(copy), 1).close()  # as the next process does
    with sqlite3.connect(copy / "collection" / "C" / "storage.sqlite") as database:
        database.execute("UPDATE points SET point = ?", (pickle.dumps(pytest.fail),))
    with pytest.raises(TourError, match="would load"):
        connect(str(copy), 1)


@pytest.fixture
def service(monkeypatch):
    service = QdrantService()
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda _, request: service.handle(request))
    return service


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_server_of_qdrant_with_faults(service, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    address = f"qdrant://{tmp_path.name}.test/C?kind=hnsw"
    target = loading(address, VECTORS)
    monkeypatch.setattr(target.engine, "most_bytes", 2000)
    target.append(docids_of(VECTORS)[:CHUNK], VECTORS[:CHUNK])
    sizes = [size for path, size, _ in service.requests if path == "/collections/C/points"]
    assert len(sizes) > 10 and max(sizes) < 4000 and target.done == CHUNK
    service.faults += ["lost"] * 6
    with pytest.raises(TourError, match="6 tries"):
        target.append(docids_of(VECTORS)[CHUNK : 2 * CHUNK], VECTORS[CHUNK : 2 * CHUNK])
    store, expected = load(address, VECTORS), as_store(VECTORS).search(QUERIES, 10)
    caplog.clear()
    service.faults += [503, "lost", 429, 500]
    hits = store.search(QUERIES, 10)
    assert np.array_equal(hits.ids, expected.ids) and np.array_equal(hits.similarities, expected.similarities)
    assert caplog.text.count("trying again") == 4
    assert store.texts["doc-3"].parts[0] == "fox" and np.array_equal(store.fetch(np.array([100])), VECTORS[100:101])
    assert store.state.kind == "HNSW" and not store.state.exact
    assert {key for _, _, key in service.requests} == {"secret"}
    service.faults.append(403)
    with pytest.raises(TourError, match="403"):
        store.search(QUERIES, 10)


def test_a_connection_to_postgresql_that_is_lost_is_made_again(tmp_path, monkeypatch, caplog):
    import psycopg

    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)
    store = load(address_in(tmp_path, "pgvector"), VECTORS)
    with psycopg.connect(postgres()) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert np.array_equal(store.search(QUERIES, 10).ids, as_store(VECTORS).search(QUERIES, 10).ids)
    assert caplog.text.count("trying again") == 1


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
def test_a_server_of_milvus_that_is_killed_and_started_again(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    expected = as_store(VECTORS).search(QUERIES, 10)
    started, later = [milvus_server(tmp_path / "data", port)], threading.Timer(0, int)
    try:
        store = load(f"milvus://127.0.0.1:{port}/C?timeout=2", VECTORS)
        assert np.array_equal(store.search(QUERIES, 10).similarities, expected.similarities)
        started[0].kill()
        started[0].wait()
        later = threading.Timer(1.0, lambda: started.append(milvus_server(tmp_path / "data", port)))
        later.start()
        assert np.array_equal(store.search(QUERIES, 10).ids, expected.ids)  # it waits for the server
    finally:
        if later.is_alive():
            later.join()  # a server that is being started ends too
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("text", "location", "collection"),
    [
        ("milvus:/data/a b.db?collection=C", "/data/a b.db", "C"),
        ("milvus://db.example.org:19530/wiki", "http://db.example.org:19530", "wiki"),
        ("qdrant://[::1]:6333/C", "http://[::1]:6333", "C"),
        ("qdrant:http://localhost:6333/?collection=C", "http://localhost:6333", "C"),
        ("postgresql://me@db:5432/x?timeout=30&sslmode=require#C", "postgresql://me@db:5432/x?sslmode=require", "C"),
    ],
)
def test_addresses(text, location, collection):
    address = store_address(text)
    assert (address.location, address.collection) == (location, collection)
    assert address.engine == ("pgvector" if text.startswith("postgres") else text[:6])
    assert store_address(str(address)) == address


def test_options_of_an_address_and_what_is_none(tmp_path, monkeypatch):
    address = store_address("milvus:a.db?collection=C&kind=hnsw&M=8&efC=40&ef=50&texts=no&timeout=5")
    assert (address.kind, address.numbers) == ("hnsw", {"M": 8, "efC": 40, "ef": 50})
    assert (address.texts, address.timeout) == (False, 5.0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "milvus:x").mkdir()
    for name in ("indexes/scifact", "lucene:index", None, tmp_path, "milvus:x"):
        assert store_address(name) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("milvus:demo.db", r"FILE\.db\?collection=NAME"),
        ("qdrant:points?collection=a-b", "letters, digits and _"),
        ("qdrant://user:secret@host/C", "server"),
        ("postgresql://user:secret@host/x#C", "pgpass"),
        ("milvus:a.db?collection=C&probes=3", "'probes'"),
        ("qdrant:points?collection=C&kind=ivf", "flat or hnsw"),
    ],
)
def test_addresses_that_are_refused(text, word):
    with pytest.raises(TourError, match=word):
        store_address(text)
