"""Commands that are killed, interrupted, run twice at a time or given small disks; many labels, many queries."""

import gc
import os
import resource
import signal
import time
import zlib
from pathlib import Path
from random import Random

import numpy as np
from forked import Area, Process
from toy_collection import HashReranker, ToyCollection
from workload import Step, Workload

ENDINGS = {
    signal.SIGTERM: "terminated; run the same command again",
    signal.SIGHUP: "the terminal was closed; run the same command again",
    signal.SIGINT: "interrupted; run the same command again",
}
SMALLEST = 16  # bytes; Python's tempfile looks for a folder in which it can write 4
MOST_LOST = 32  # labels


def killed(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """kill -9 at a random moment: no file is torn, and the same command again leaves what it always leaves."""
    for step in workload.chosen(random, cases):
        after = random.uniform(0, workload.reference(step).seconds * 1.05)
        workload.reset(step)
        Process(step.work).ended(signal.SIGKILL, after=after)
        area.add(f"{step.name} after {after:.3f} s", workload.torn(step) or workload.repeated(step))


def signalled(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """SIGTERM, SIGHUP and SIGINT: one sentence, the shell's exit code, and no temporary file is left at once."""
    for number, step in enumerate(workload.chosen(random, cases)):
        sent = list(ENDINGS)[(number + number // len(workload.steps)) % len(ENDINGS)]
        reference = workload.reference(step)
        after = random.uniform(0.02, reference.seconds)
        workload.reset(step)
        code, stderr, _ = Process(step.work).ended(sent, after=after)
        fault = None
        if code != reference.code and not (code == -sent and workload.finished(step)):  # else it had finished
            if code != 128 + sent or "Traceback" in stderr or ENDINGS[sent] not in stderr.splitlines()[-1]:
                fault = f"exit code {code}: {stderr[-300:]}"
            fault = fault or workload.left()
        case = f"{step.name}, {sent.name} after {after:.3f} s"
        area.add(case, fault or workload.torn(step) or workload.repeated(step))


def together(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """Two processes with the same command: each succeeds or refuses in one sentence, and the output is whole."""
    for step in workload.chosen(random, cases):
        reference = workload.reference(step)
        workload.reset(step)
        one = Process(step.work)
        time.sleep(random.uniform(0, reference.seconds / 2))
        outcomes = [one.wait() for one in (one, Process(step.work))]
        fault = next((outcome.fault for outcome in outcomes if outcome.fault), None)
        if fault is None and reference.code not in [outcome.code for outcome in outcomes]:
            fault = f"both refused: {[outcome.stderr[-200:] for outcome in outcomes]}"
        area.add(step.name, fault or workload.left() or workload.torn(step) or workload.repeated(step))


def limited(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """No file may be larger than a limit: every file that a command writes is cut once."""
    for number, step in enumerate(workload.chosen(random, cases)):
        limits = _limits(workload, step)
        if number // len(workload.steps) >= len(limits):
            continue  # every limit was tried
        limit = limits[number // len(workload.steps)]
        workload.reset(step)
        outcome = Process(step.work, largest_file=limit).wait()
        fault = outcome.fault
        if outcome.code == 2 and not any(word in outcome.stderr for word in ("cannot", "could not", "disk")):
            fault = f"an unclear message: {outcome.stderr[-300:]}"
        fault = fault or workload.torn(step) or workload.left() or workload.repeated(step)
        area.add(f"{step.name}, at most {limit} bytes", fault)


def _limits(workload: Workload, step: Step) -> list[int]:
    """Limits at which each file that the step writes fails: in its first bytes, in the middle, and at its last byte."""
    reference = workload.reference(step)
    sizes = {len(content) for name, content in reference.files.items() if name not in workload.template_files}
    limits = {SMALLEST, *(size // 2 for size in sizes), *(size - 1 for size in sizes)}
    return sorted(limits, key=lambda limit: zlib.crc32(b"%d" % limit))  # in an order that is the same each time


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


def labels_kept(area: Area, workload: Workload, random: Random, cases: int) -> None:
    """kill -9 while labels are bought: those of more than a second before stay, and those that stay are right."""
    from tour_pyserini.rerankers.score_cache import CachedReranker

    pairs = [("query", f"passage {row}") for row in range(100_000)]
    for number in range(cases):
        cache, counter = workload.folder / f"kept-{number}.sqlite", workload.folder / f"count-{number}"
        pace, after = random.choice([0.001, 0.003, 0.02]), random.uniform(0.2, 3.0)

        def buy(cache: Path = cache, counter: Path = counter, pace: float = pace) -> None:
            CachedReranker(SlowReranker(counter, pace), cache).predict(pairs)

        Process(buy).ended(signal.SIGKILL, after=after)
        bought = counter.stat().st_size if counter.exists() else 0
        with CachedReranker(HashReranker(), cache) as kept:
            stored = int(np.isfinite(kept.lookup(pairs)).sum())
            right = HashReranker().predict(pairs[:stored]).tolist() == kept.predict(pairs[:stored]).tolist()
        # A second of work, half as much again for a busy machine, or 32 labels.
        fault = None if bought - stored <= max(MOST_LOST, 1.5 / pace) else f"{bought} bought, {stored} kept"
        area.add(f"{pace} s per label, killed after {after:.2f} s", fault or (None if right else "wrong scores"))


def endurance(area: Area, workload: Workload, _: Random, queries: int) -> None:
    """Many queries with stubbed models: memory and descriptors do not grow after the first tenth."""
    code, stderr, _ = Process(lambda: _search_many(workload.folder, -(-queries // 100))).wait()
    area.add(f"{queries} queries", None if code == 0 else stderr[-500:])
    area.cases = queries


def _search_many(folder: Path, batches: int) -> None:
    from tour_pyserini import TourConfig
    from tour_pyserini.rerankers.score_cache import CachedReranker
    from tour_pyserini.searchers.searcher import TourSearcher

    toy, reranker = ToyCollection(folder / "endurance", queries=100), HashReranker()
    cached = CachedReranker(reranker, folder / "endurance.sqlite")
    engine = TourSearcher(toy.searcher(), cached, toy.texts, TourConfig(method="hard"))
    sizes = []
    for batch in range(batches):
        engine.batch_search(toy.queries, [f"{100 * batch + row}" for row in range(100)], k=10)
        reranker.asked.clear()
        if batch in (batches // 10, batches - 1):
            gc.collect()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
            sizes.append((resident / 2**20, len(os.listdir("/proc/self/fd"))))
    (memory, descriptors), (memory_after, descriptors_after) = sizes[0], sizes[-1]
    assert descriptors_after <= descriptors, f"{descriptors_after - descriptors} more descriptors"
    assert memory_after - memory < 8, f"{memory_after - memory:.1f} MiB more memory after {100 * batches} queries"
