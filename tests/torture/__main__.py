"""Torture every command, and print one table: `python tests/torture --seed 7`, or `--share 0.1` for a tenth of it."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries do not survive a fork

from forked import load_everything  # noqa: E402
from full_disks import limited  # noqa: E402
from fuzzing import fuzzed  # noqa: E402
from interruptions import killed, signalled, together  # noqa: E402
from results import Area, table  # noqa: E402
from sharing import endurance, labels_kept  # noqa: E402
from workload import Workload  # noqa: E402

KILLED, SIGNALLED, TOGETHER, LIMITED = 228, 114, 38, 285  # cases of the whole campaign
LABELS, QUERIES, FUZZED = 12, 20_000, 10_200


def run_campaign(folder: Path, seed: int, share: float, *, only: str) -> list[Area]:
    """Run all areas, or those whose name contains `only`, with a share of their cases, but at least one each."""
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
        "labels": lambda: [labels_kept(folder, random("labels"), count(LABELS))],
        "queries": lambda: [endurance(folder, 100 * count(QUERIES // 100))],
        "fuzz": lambda: fuzzed(workload, seed, count(FUZZED)),
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


def main() -> int:
    """Run the campaign; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="the same seed gives the same cases (default: the time)")
    parser.add_argument("--share", type=float, default=1.0, help="share of all cases (default: 1, about half an hour)")
    parser.add_argument("--only", help="only areas whose name contains this")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        areas = run_campaign(Path(folder), seed, arguments.share, only=arguments.only or "")
    for area in areas:
        for failure in area.failures[:20]:
            sys.stdout.write(f"{area.name}: {failure}\n")
    sys.stdout.write(f"{table(areas)}\nseed {seed}, share {arguments.share}\n")
    return int(any(area.failures for area in areas))


if __name__ == "__main__":
    sys.exit(main())
