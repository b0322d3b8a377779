"""The same vectors in FAISS, Milvus, Qdrant and PostgreSQL: time of a search and of TouR, recall, equality of lists."""

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import NQ, BenchmarkSetup
from benchmarks.timings import run_module, time_in_turns
from tour_pyserini import TourConfig, load_query_encoder
from tour_pyserini.core.arrays import Floats, Hits
from tour_pyserini.core.scheduler import Task
from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.run_records import PASSAGE_INDEX
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.searchers.searched_index import SearchedIndex, open_index
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.stores.faiss_building import check_fit
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.filters import FieldTable, Filter, search_within
from tour_pyserini.stores.store import Store, as_store
from tour_pyserini.stores.vector_collection import CollectionStore
from tour_pyserini.support.files import sha256
from tour_pyserini.support.packages import import_optional

SCIFACT = ("scifact", "test")
K = 100  # hits of a query
METHOD = TourConfig("hard", depth=10, iterations=3)
GRAPH = {"M": 32, "efC": 100, "ef": 128}
COLLECTIONS: Mapping[str, str] = {
    "Milvus Lite, FLAT": "milvus:{}/lite.db?collection=flat_{}&texts=no",
    "Milvus Lite, HNSW": "milvus:{}/lite.db?collection=hnsw_{}&texts=no&kind=hnsw&M=32&efC=100&ef=128",
    "Milvus Lite, IVF": "milvus:{}/lite.db?collection=ivf_{}&texts=no&kind=ivf&nlist=128&nprobe=16",
    "Qdrant, local mode": "qdrant:{}/points?collection=flat_{}&texts=no",
    "PostgreSQL, exact": "{}&texts=no#flat_{}",
    "PostgreSQL, HNSW": "{}&texts=no&kind=hnsw&M=32&efC=100&ef=128#hnsw_{}",
}
_PASSING = 1000  # documents that pass the filter


class Contender(NamedTuple):
    """A store, and the seconds that it took to fill it; None if it had been filled before."""

    store: Store
    seconds: float | None


def measure_stores(setup: BenchmarkSetup) -> Report:
    """Ms per search and of TouR in each store, with the same vectors and questions; recall and equality of lists."""
    topics = NQ if setup.searched else SCIFACT
    folder, corpus = setup.searched or setup.index(topics[0]), setup.passages_from or setup.corpus(topics[0])
    opened, encoder = open_index(folder), load_query_encoder(setup.encoder)
    texts = [record["text"] for record in setup.topics(*topics).records()]
    queries = np.stack([np.asarray(encoder.encode(text), dtype=np.float32).reshape(-1) for text in texts])
    place, version = setup.work / "stores", sha256(folder / "index")[:12]
    place.mkdir(parents=True, exist_ok=True)
    postgres: Any = import_optional("pgserver", extra="test")
    server = (
        postgres.get_server(place / "postgres").get_uri().replace("postgres:@", "postgres@")
    )  # it ends with this process
    addresses = {
        name: address.format(server if name.startswith("PostgreSQL") else place, version)
        for name, address in COLLECTIONS.items()
    }
    # All are filled before one is opened: a local database is for one process at a time.
    filled = {name: _fill(setup, address, folder, corpus) for name, address in addresses.items()}
    flat = as_store(opened.index)
    contenders = {
        "FAISS, flat": Contender(flat, None),
        "FAISS, HNSW": faiss_graph(flat),
        **{name: Contender(open_index(address).index, filled[name]) for name, address in addresses.items()},
    }
    searches = time_in_turns(
        {name: searching(contender.store, queries) for name, contender in contenders.items()}, rounds=setup.rounds
    )
    docids = list(opened.docids)
    wanted = Filter.parse(docids[:: max(1, len(docids) // _PASSING)][:_PASSING])
    documents = FieldTable(docids).passing(wanted)
    within: dict[str, Any] = {
        name: one.store.within(wanted) if isinstance(one.store, CollectionStore) else documents
        for name, one in contenders.items()
    }
    filtered = time_in_turns(
        {name: searching(one.store, queries, within[name]) for name, one in contenders.items()}, rounds=setup.rounds
    )
    with tempfile.TemporaryDirectory() as scores:
        reranker = CachedReranker(load_reranker(setup.model), Path(scores) / "scores.sqlite")
        passages, labels = open_texts(corpus), {name: dict[str, dict[int, float]]() for name in contenders}
        engines = {
            name: TourSearcher(
                SearchedIndex(contender.store, opened.docids, encoder),
                reranker,
                passages,
                METHOD,
                observe=partial(_keep_labels, labels[name]),
            )
            for name, contender in contenders.items()
        }
        # The call that warms a store up labels what no store before it has found.
        tours = time_in_turns({name: touring(engine, texts) for name, engine in engines.items()}, rounds=1)
    exact, exact_filtered = flat.search(queries, K), search_within(flat, queries, K, documents)
    body = []
    for name, contender in contenders.items():
        hits = contender.store.search(queries, K)
        milliseconds = [1000 * timings.best(name) / len(queries) for timings in (searches, filtered, tours)]
        among = search_within(contender.store, queries, K, within[name])
        seconds = "-" if contender.seconds is None else f"{contender.seconds:.0f}"
        row = [name, seconds, *(f"{value:.1f}" for value in milliseconds), f"{_recall(hits, exact):.3f}"]
        agree = _agreement(hits, exact), _agreement(among, exact_filtered)
        same = [
            ours == theirs and labels["FAISS, flat"][text] == labels[name][text]
            for text, ours, theirs in zip(texts, tours.results["FAISS, flat"], tours.results[name], strict=True)
        ]
        body.append([*row, *agree, str(sum(same))])
    costs = engines["FAISS, flat"].costs
    graph = ", ".join(f"{name} = {value}" for name, value in GRAPH.items())
    note = (
        f"{flat.size:,} passages of {flat.dimension} dimensions; {len(queries)} questions of {topics[0]}, one at a "
        f"time, {K} hits, {setup.rounds} rounds in turns; "
        f"HNSW with {graph}, IVF with 128 lists of which 16 are searched. To "
        "fill: seconds of the index command, which copies the vectors of the flat index; of FAISS, HNSW, of building "
        f"the graph. TouR ({METHOD.method}, k = {METHOD.depth}, T = {METHOD.iterations}): ms per question, with "
        f"encoding it and without labels; its {costs.scored / len(queries):.1f} labels take "
        f"{1000 * costs.seconds['label'] / len(queries):.0f} ms more, with {setup.model.name}. With a filter, "
        f"{len(documents.ids):,} documents pass, which it names. Milvus Lite and "
        "Qdrant's local mode are for small collections and run in this process: servers have other figures. A search "
        "of a collection brings the vectors along. Lists as of the flat index: all, to the bit."
    )
    head = [
        *("store", "s to fill", "search, ms", "with a filter, ms", "TouR, ms", f"recall at {K}"),
        *("lists as flat", "with a filter", "TouR the same"),
    ]
    return Report("stores", "Vector stores", Table([head, *body]), note)


def faiss_graph(flat: Store) -> Contender:
    """FAISS's HNSW of the vectors of a flat index."""
    vectors, start = flat.fetch(np.arange(flat.size)), time.perf_counter()
    graph = check_fit(*vectors.shape, kind="hnsw", hnsw_m=GRAPH["M"], ef_construction=GRAPH["efC"])
    graph.add(vectors)
    seconds = time.perf_counter() - start
    graph.hnsw.efSearch = GRAPH["ef"]
    return Contender(FaissIndex(graph), seconds)


def _fill(setup: BenchmarkSetup, address: str, folder: Path, corpus: Path) -> float | None:
    """Load a collection with the vectors of the index: the seconds; None if an earlier measurement did it."""
    precision = read_json_object(folder / PASSAGE_INDEX)["settings"]["precision"]  # of the vectors that are copied
    words = ["--corpus", str(corpus), "--encoder", setup.encoder, "--precision", precision]
    words += ["--index", address, "--vectors", str(folder)]
    try:
        # In a process of its own: at its end, Milvus Lite has built what it builds in the background.
        return run_module("tour_pyserini.index", words, here=setup.quick).seconds
    except TourError as error:
        if "is complete already" not in str(error):
            raise
        return None


def searching(store: Store, queries: Floats, within: Any = None) -> Callable[[], object]:
    """What searches one query [d] after the other."""
    if within is None:
        return lambda: [store.search(query[None], K) for query in queries]
    return lambda: [search_within(store, query[None], K, within) for query in queries]


def touring(engine: TourSearcher, texts: list[str]) -> Callable[[], list[list[str]]]:
    """What searches one question after the other, and gives the lists of docids."""
    return lambda: [[hit.docid for hit in engine.search(text, k=K)] for text in texts]


def _keep_labels(of: dict[str, dict[int, float]], _: str, task: Task) -> None:
    of[task.query.text] = task.labels


def _recall(hits: Hits, exact: Hits) -> float:
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(hits.ids.tolist(), exact.ids.tolist(), strict=True)]
    return float(np.mean(shares))


def _agreement(hits: Hits, exact: Hits) -> str:
    same = (hits.ids == exact.ids).all(axis=1)
    bits = bool(same.all()) and np.array_equal(hits.similarities, exact.similarities)
    return "all" if bits else f"{int(same.sum())} of {len(same)}"
