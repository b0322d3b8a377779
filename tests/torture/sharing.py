"""Labels of killed processes, and twenty thousand queries in one process."""

import gc
import os
import resource
import signal
import time
from pathlib import Path
from random import Random

import numpy as np
from forked import Process
from results import Area
from toy_collection import HashReranker, ToyCollection
from workload import ended

MOST_LOST = 32


class SlowReranker(HashReranker):
    """Yields one score after the other, and counts them in a file as they are computed."""

    def __init__(self, counter: Path, seconds: float) -> None:
        super().__init__()
        self._counter, self._seconds = counter, seconds

    def predict_parts(self, pairs):
        """Single scores with a pause before each."""
        with open(self._counter, "ab", buffering=0) as counter:
            for position, pair in enumerate(pairs):
                time.sleep(self._seconds)
                counter.write(b"x")
                yield np.array([position]), self.predict([pair])


def labels_kept(folder: Path, random: Random, cases: int) -> Area:
    """kill -9 while labels are bought: those of more than a second before stay, and those that stay are right."""
    from tour_pyserini.rerankers import CachedReranker

    area = Area("labels kept")
    for number in range(cases):
        cache, counter = folder / f"kept-{number}.sqlite", folder / f"count-{number}"
        pace = random.choice([0.001, 0.003, 0.02])
        pairs = [("query", f"passage {row}") for row in range(100_000)]

        def buy(cache: Path = cache, counter: Path = counter, pace: float = pace, pairs: list = pairs) -> None:
            CachedReranker(SlowReranker(counter, pace), cache).predict(pairs)

        after = random.uniform(0.2, 3.0)
        ended(Process(buy), signal.SIGKILL, after)
        bought = counter.stat().st_size if counter.exists() else 0
        with CachedReranker(HashReranker(), cache) as kept:
            stored = int(np.isfinite(kept.lookup(pairs)).sum())
            right = HashReranker().predict(pairs[:stored]).tolist() == kept.predict(pairs[:stored]).tolist()
        # A second of work, half as much again for a busy machine, or 32 labels.
        fault = None if bought - stored <= max(MOST_LOST, 1.5 / pace) else f"{bought} bought, {stored} kept"
        area.add(f"{pace} s per label, killed after {after:.2f} s", fault or (None if right else "wrong scores"))
    return area


def endurance(folder: Path, queries: int) -> Area:
    """Many queries with stubbed models: memory and descriptors do not grow after the first tenth."""
    area = Area("many queries: memory and descriptors")
    area.add(f"{queries} queries", _said(Process(lambda: _search_many(folder, queries)).wait()))
    area.cases = queries
    return area


def _said(outcome: object) -> str | None:
    code, stderr, _ = outcome  # type: ignore[misc]
    return None if code == 0 else stderr[-500:]


def _search_many(folder: Path, queries: int) -> None:
    from tour_pyserini import TourConfig
    from tour_pyserini.rerankers import CachedReranker
    from tour_pyserini.searchers.searcher import TourSearcher

    toy = ToyCollection(folder / "endurance", queries=100)
    reranker = HashReranker()
    engine = TourSearcher(
        toy.searcher(), CachedReranker(reranker, folder / "endurance.sqlite"), toy.texts, TourConfig(method="hard")
    )
    sizes = []
    for start in range(0, queries, 100):
        engine.batch_search(toy.queries, [f"{start + row}" for row in range(100)], k=10)
        reranker.asked.clear()
        if start in (queries // 10 // 100 * 100, (queries - 1) // 100 * 100):
            gc.collect()
            sizes.append((_resident(), len(os.listdir("/proc/self/fd"))))
    (memory, descriptors), (memory_after, descriptors_after) = sizes[0], sizes[-1]
    assert descriptors_after <= descriptors, f"{descriptors_after - descriptors} more descriptors"
    grown = (memory_after - memory) / 2**20
    assert grown < 8, f"{grown:.1f} MiB more memory after {queries} queries"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
