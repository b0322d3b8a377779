"""One contender of the phrase search, in a process of its own: search with vectors from a file, print what it took."""

import argparse
import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.every_phrase import every_phrase
from benchmarks.process import peak_memory
from tour_pyserini.stores.phrases.finder import PhraseFinder
from tour_pyserini.stores.phrases.phrase_index import open_phrase_index


def main(argv: Sequence[str] | None = None) -> None:
    """Print seconds per query, one by one and together, the process's largest memory in bytes, and the ids found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phrase_point", description=__doc__)
    parser.add_argument("--index", required=True)
    parser.add_argument("--vectors", required=True, help="a .npy file, [queries, 2 d]")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--brute-force", action="store_true", help="score every phrase of the index")
    args = parser.parse_args(argv)
    queries = np.load(args.vectors, allow_pickle=False)
    index = open_phrase_index(args.index)
    before = peak_memory()
    finder = PhraseFinder(index)

    def search(query: np.ndarray) -> np.ndarray:
        if args.brute_force:
            return every_phrase(index, query, args.k, max_words=finder.max_words)
        return finder.find(query[None], phrases=args.k).ids[0]

    search(queries[0])  # files are read, and what is made once is made
    start = time.perf_counter()
    found = [search(query).tolist() for query in queries]
    seconds = (time.perf_counter() - start) / len(queries)
    told = {"seconds": seconds, "opened": before, "memory": peak_memory(), "found": found}
    if not args.brute_force:
        start = time.perf_counter()
        finder.find(queries, phrases=args.k)
        told["together"] = (time.perf_counter() - start) / len(queries)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
