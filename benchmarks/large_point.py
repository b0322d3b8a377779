"""One step of (large), in a process of its own: build, open, search or TouR; prints its seconds and memory."""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.synthetic_data import ChecksumReranker, NumberEncoder, large_vectors
from benchmarks.timings import peak_memory

STEPS = ("build", "open", "search", "tour")
HITS = 100
BATCH = 64


def main(argv: Sequence[str] | None = None) -> None:
    """Do the step, and print its seconds, the largest memory of the process, and the bytes of the index."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_point", description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus.jsonl, docid and vectors")
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--factory", default="Flat")
    parser.add_argument("--nprobe", type=int, default=16)
    parser.add_argument("--queries", type=int, default=BATCH)
    parser.add_argument("--cache", help="the cache folder, if not the usual one")
    args = parser.parse_args(argv)
    if args.cache:
        os.environ["TOUR_PYSERINI_CACHE"] = args.cache
    seconds = {"build": _build, "open": _open, "search": _search, "tour": _tour}[args.step](args)
    costs = {"seconds": seconds, "memory": peak_memory(), "bytes": (args.index / "index").stat().st_size}
    sys.stdout.write(json.dumps(costs) + "\n")


def _build(args: argparse.Namespace) -> float:
    from tour_pyserini.stores.faiss_building import write_index

    args.index.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    kind: dict[str, Any] = {"kind": "factory", "factory": args.factory, "nprobe": args.nprobe}
    write_index(large_vectors(args.data), args.index / "index", **(kind if args.factory != "Flat" else {}), threads=1)
    seconds = time.perf_counter() - start
    shutil.copyfile(args.data / "docid", args.index / "docid")
    return seconds


def _open(args: argparse.Namespace) -> float:
    from tour_pyserini.data.texts import open_texts
    from tour_pyserini.searchers.searched_index import open_index
    from tour_pyserini.stores.filters import positions_of

    start = time.perf_counter()
    searched, texts = open_index(args.index), open_texts(args.data / "corpus.jsonl")
    positions = positions_of(searched.docids)
    seconds = time.perf_counter() - start
    assert positions[searched.docids[-1]] == searched.num_docs - 1 and searched.docids[0] in texts
    return seconds


def _search(args: argparse.Namespace) -> float:
    import numpy as np

    from tour_pyserini.searchers.searched_index import open_index
    from tour_pyserini.stores.store import as_store

    store = as_store(open_index(args.index).index)
    encoder = NumberEncoder()
    queries = np.stack([encoder.encode(str(number)) for number in range(args.queries)])
    store.search(queries[:1], HITS)  # warm: the file is read, and norms are computed
    start = time.perf_counter()
    for first in range(0, len(queries), BATCH):
        store.search(queries[first : first + BATCH], HITS)
    return time.perf_counter() - start


def _tour(args: argparse.Namespace) -> float:
    from tour_pyserini.core.config import TourConfig
    from tour_pyserini.searchers.searched_index import open_index
    from tour_pyserini.searchers.searcher import TourSearcher

    searched = open_index(args.index)
    searched.query_encoder = NumberEncoder()
    config = TourConfig(method="hard", depth=10, iterations=3)
    engine = TourSearcher(searched, ChecksumReranker(), str(args.data / "corpus.jsonl"), config)
    engine.search("0", k=HITS)  # warm
    topics = [str(number) for number in range(args.queries)]
    start = time.perf_counter()
    for first in range(0, len(topics), BATCH):
        engine.batch_run(topics[first : first + BATCH], topics[first : first + BATCH], HITS)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
