"""One phrase search, in a process of its own: search with vectors from a file; print seconds, memory and ids."""

import argparse
import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.timings import peak_memory
from tour_pyserini.phrases.phrase_index import ENDS, STARTS, PhraseIndex, open_phrase_index
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher

ROWS_AT_ONCE = 65_536  # read from the memory-mapped file


def main(argv: Sequence[str] | None = None) -> None:
    """Print seconds per query, one by one and in a batch, the largest memory of the process in bytes, and the ids."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phrase_point", description=__doc__)
    parser.add_argument("--index", required=True)
    parser.add_argument("--vectors", required=True, help="a .npy file, [queries, 2 d]")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--brute-force", action="store_true", help="score every phrase instead of searching the index")
    args = parser.parse_args(argv)
    queries = np.load(args.vectors, allow_pickle=False)
    index = open_phrase_index(args.index)
    before = peak_memory()
    searcher = PhraseSearcher(index, None, {})

    def search(query: np.ndarray) -> np.ndarray:
        if args.brute_force:
            return every_phrase(index, query, args.k, max_words=searcher.max_words)
        return searcher.find(query[None], phrases=args.k).ids[0]

    search(queries[0])  # to warm up
    start = time.perf_counter()
    found = [search(query).tolist() for query in queries]
    seconds = (time.perf_counter() - start) / len(queries)
    costs = {"seconds": seconds, "opened": before, "memory": peak_memory(), "found": found}
    if not args.brute_force:
        start = time.perf_counter()
        searcher.find(queries, phrases=args.k)
        costs["together"] = (time.perf_counter() - start) / len(queries)
    sys.stdout.write(json.dumps(costs) + "\n")


def every_phrase(index: PhraseIndex, query: np.ndarray, k: int, *, max_words: int) -> np.ndarray:
    """Search without an index: score every phrase, and return the ids of the k best.

    Only phrases count that are the best with their start, or the best with their end.

    Args:
        index: the tokens.
        query: [2 d] the vector [start; end].
        k: how many phrases.
        max_words: most words of a phrase.
    """
    rows, count = index.rows, len(index.rows)
    sides = query.reshape(2, -1).T.astype(np.float32)
    scores = np.concatenate(
        [index.vectors[at : at + ROWS_AT_ONCE].astype(np.float32) @ sides for at in range(0, count, ROWS_AT_ONCE)]
    )
    start = np.where(rows["roles"] & STARTS, scores[:, 0], -np.inf)
    end = np.where(rows["roles"] & ENDS, scores[:, 1], -np.inf)
    passage, first, last = rows["passage"], rows["first"].astype(np.int32), rows["last"].astype(np.int32)
    # By start and by end: the best score so far, and the distance to the other end of that phrase.
    best = np.full((2, count), -np.inf, dtype=np.float32)
    away = np.zeros((2, count), dtype=np.int32)
    for distance in range(min(2 * max_words, count)):
        starts, ends = slice(0, count - distance), slice(distance, None)
        is_phrase = (passage[starts] == passage[ends]) & (last[ends] - first[starts] < max_words)
        sums = np.where(is_phrase, start[starts] + end[ends], -np.inf)
        for side, rows_of_side in enumerate((starts, ends)):
            better = sums > best[side, rows_of_side]
            best[side, rows_of_side] = np.where(better, sums, best[side, rows_of_side])
            away[side, rows_of_side] = np.where(better, distance, away[side, rows_of_side])
    row = np.arange(count)
    first_rows, last_rows = np.concatenate([row, row - away[1]]), np.concatenate([row + away[0], row])
    values = best.reshape(-1)
    chosen = np.argpartition(-values, min(2 * k, len(values) - 1))[: 2 * k]  # a phrase may be listed for both its sides
    chosen = chosen[values[chosen] > -np.inf]
    ids, positions = np.unique(index.phrase_id(first_rows[chosen], last_rows[chosen]), return_index=True)
    return ids[np.lexsort((ids, -values[chosen][positions]))][:k]


if __name__ == "__main__":
    main()
