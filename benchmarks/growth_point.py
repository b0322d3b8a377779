"""One search of (e), in a process of its own, with models that cost nothing; prints its seconds and memory."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.synthetic_data import ChecksumReranker, NamedTexts, NumberEncoder
from benchmarks.timings import peak_memory
from tour_pyserini import FaissSearcher, TourConfig, TourSearcher
from tour_pyserini.data.runs import open_run

HITS = 100


def main(argv: Sequence[str] | None = None) -> None:
    """Search, and print the seconds of the search, the largest memory of the process and the bytes of the run file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth_point", description=__doc__)
    parser.add_argument("--index", required=True)
    parser.add_argument("--queries", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    config = TourConfig(method="hard", depth=args.depth, iterations=3)
    searcher = TourSearcher(FaissSearcher(args.index, NumberEncoder()), ChecksumReranker(), NamedTexts(), config)
    topics = [str(number) for number in range(args.queries)]
    start = time.perf_counter()
    with open_run(args.output, hits=max(HITS, args.depth)) as write_hits:
        for first in range(0, len(topics), 64):
            batch = topics[first : first + 64]
            for topic, hits in searcher.batch_run(batch, batch, max(HITS, args.depth))[1].items():
                write_hits(topic, hits)
    seconds = time.perf_counter() - start
    costs = {"seconds": seconds, "memory": peak_memory(), "bytes": args.output.stat().st_size}
    args.output.unlink()
    sys.stdout.write(json.dumps(costs) + "\n")


if __name__ == "__main__":
    main()
