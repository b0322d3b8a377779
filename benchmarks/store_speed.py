"""The same vectors in FAISS, Milvus and Qdrant: time of a search, recall, and whether lists are those of FAISS flat."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.timings import time_in_turns
from tour_pyserini import load_query_encoder
from tour_pyserini.core.candidates import Floats, Hits
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.searchers.opening import SearchedIndex, open_index
from tour_pyserini.stores.engines.collection_loading import CollectionLoading
from tour_pyserini.stores.engines.collection_store import open_collection
from tour_pyserini.stores.engines.store_address import store_address
from tour_pyserini.stores.faiss_building import build_index
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.store import Store, as_store
from tour_pyserini.support.files import sha256

K = 100  # hits of a query
CHUNK = 4096
_GRAPH = {"M": 32, "efC": 200, "ef": 128}
COLLECTIONS: Mapping[str, str] = {
    "Milvus Lite, FLAT": "milvus:{}/lite.db?collection=flat_{}&texts=no",
    "Milvus Lite, HNSW": "milvus:{}/lite.db?collection=hnsw_{}&texts=no&kind=hnsw&M=32&efC=200&ef=128",
    "Milvus Lite, IVF": "milvus:{}/lite.db?collection=ivf_{}&texts=no&kind=ivf&nlist=128&nprobe=16",
    "Qdrant, local mode": "qdrant:{}/points?collection=flat_{}&texts=no",
}


class _Contender(NamedTuple):
    """A store, and the seconds that it took to fill it; None if it had been filled before."""

    store: Store
    seconds: float | None


def measure_stores(setup: BenchmarkSetup) -> Report:
    """Ms per search of each store with the same vectors and questions, with recall and equality of lists."""
    folder = setup.searched or setup.index(NQ[0])
    opened = open_index(folder)
    flat, queries = as_store(opened.index), _questions(setup)
    contenders = {"FAISS, flat": _Contender(flat, None), "FAISS, HNSW": _timed(lambda: _graph(flat))}
    place, version = setup.work / "stores", sha256(folder / "index")[:12]
    place.mkdir(parents=True, exist_ok=True)
    for name, address in COLLECTIONS.items():
        contenders[name] = _collection(address.format(place, version), flat, opened)
    timings = time_in_turns(
        {name: _searching(contender.store, queries) for name, contender in contenders.items()}, rounds=setup.rounds
    )
    exact = flat.search(queries, K)
    body = []
    for name, contender in contenders.items():
        hits = contender.store.search(queries, K)
        milliseconds = 1000 * timings.best(name) / len(queries)
        filled = "-" if contender.seconds is None else f"{contender.seconds:.0f}"
        body.append([name, filled, f"{milliseconds:.1f}", f"{_recall(hits, exact):.3f}", _agreement(hits, exact)])
    graph = ", ".join(f"{name} = {value}" for name, value in _GRAPH.items())
    note = (
        f"{flat.size} passages of {flat.dimension} dimensions; {len(queries)} questions of NQ, one at a time, {K} "
        f"hits, {setup.rounds} rounds in turns; HNSW with {graph}, IVF with 128 "
        "lists of which 16 are searched. Milvus Lite and Qdrant's local mode are for small collections and run in this "
        "process: servers have other figures. A search of a collection brings the vectors along."
    )
    head = ["store", "s to fill", "ms per search", f"recall of the exact {K}", "lists and similarities as FAISS flat"]
    return Report("stores", "Vector stores", Table([head, *body]), note)


def _questions(setup: BenchmarkSetup) -> Floats:
    encoder = load_query_encoder(setup.encoder)
    texts = [record["text"] for record in setup.topics(*NQ).records()]
    return np.stack([np.asarray(encoder.encode(text), dtype=np.float32).reshape(-1) for text in texts])


def _graph(flat: Store) -> Store:
    index: Any = build_index(
        flat.fetch(np.arange(flat.size)), kind="hnsw", hnsw_m=_GRAPH["M"], ef_construction=_GRAPH["efC"], threads=None
    )
    index.hnsw.efSearch = _GRAPH["ef"]
    return FaissIndex(index)


def _collection(text: str, flat: Store, opened: SearchedIndex) -> _Contender:
    """A collection with the vectors of the index; what an earlier measurement loaded is used again."""
    address = store_address(text)
    assert address is not None
    settings = {"documents": flat.size, "dimension": flat.dimension, "chunk": CHUNK, "encoder_fingerprint": "benchmark"}
    try:
        return _Contender(open_collection(address), None)
    except Exception:  # it is not there, or not complete
        loading = CollectionLoading(address, settings, {}, bm25=False)

    def fill() -> Store:
        for start in range(loading.done, flat.size, CHUNK):
            positions = np.arange(start, min(start + CHUNK, flat.size))
            loading.append([opened.docids[position] for position in positions.tolist()], flat.fetch(positions))
        return loading.finish()

    return _timed(fill)


def _timed(fill: Callable[[], Store]) -> _Contender:
    start = time.perf_counter()
    return _Contender(fill(), time.perf_counter() - start)


def _searching(store: Store, queries: Floats) -> Callable[[], object]:
    return lambda: [store.search(query[None], K) for query in queries]


def _recall(hits: Hits, exact: Hits) -> float:
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(hits.ids.tolist(), exact.ids.tolist(), strict=True)]
    return float(np.mean(shares))


def _agreement(hits: Hits, exact: Hits) -> str:
    same = (hits.ids == exact.ids).all(axis=1)
    bits = bool(same.all()) and np.array_equal(hits.similarities, exact.similarities)
    return "all, to the bit" if bits else f"{int(same.sum())} of {len(same)} lists"
