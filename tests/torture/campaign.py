"""All areas of the campaign, with their numbers of cases at full length."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries do not survive a fork

from forked import load_everything
from full_disks import filled, limited
from fuzzing import fuzzed
from interruptions import killed, signalled, together
from results import Area
from sharing import endurance, labels_kept, threads
from workload import Workload

KILLED, SIGNALLED, TOGETHER, LIMITED, FILLED = 228, 114, 38, 285, 57
LABELS, THREADS, QUERIES, FUZZED = 12, 8, 20_000, 10_200


def run_campaign(folder: Path, seed: int, share: float = 1.0, *, only: str = "") -> list[Area]:
    """Run all areas, or those whose name contains `only`.

    Args:
        folder: an empty folder for all files.
        seed: decides every case.
        share: of the cases; each area has at least one.
        only: part of a name.
    """
    load_everything()
    workload = Workload(folder)

    def count(cases: int) -> int:
        return max(1, round(cases * share))

    def random(name: str) -> Random:
        return Random(f"{seed} {name}")

    areas: dict[str, Callable[[], list[Area]]] = {
        "kill -9": lambda: [killed(workload, random("kill"), count(KILLED))],
        "signals": lambda: [signalled(workload, random("signal"), count(SIGNALLED))],
        "two writers": lambda: [together(workload, random("together"), count(TOGETHER))],
        "full disk": lambda: [limited(workload, random("limit"), count(LIMITED))],
        "tmpfs": lambda: [filled(workload, random("fill"), count(FILLED))],
        "labels": lambda: [labels_kept(folder, random("labels"), count(LABELS))],
        "threads": lambda: [threads(folder, random("threads"), count(THREADS))],
        "queries": lambda: [endurance(folder, 100 * count(QUERIES // 100))],
        "fuzz": lambda: fuzzed(folder / "fuzz", seed, count(FUZZED)),
    }
    results = []
    for name, run in areas.items():
        if only in name:
            started = time.monotonic()
            some = run()
            if len(some) == 1:
                some[0].seconds = time.monotonic() - started
            results += some
    return results
