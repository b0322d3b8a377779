"""Torture every command, and print one table: `python tests/torture --seed 7`, or `--share 0.1` for a tenth of it."""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of libraries do not survive a fork

from disturbances import killed, limited, signalled, together  # noqa: E402
from forked import Area, load_everything  # noqa: E402
from fuzzing import TARGETS, fuzzed  # noqa: E402
from workload import Workload  # noqa: E402

# What is done to the commands, and the cases of the whole campaign.
AREAS = {
    "kill -9": (killed, 228),
    "SIGTERM, SIGHUP, SIGINT": (signalled, 114),
    "two writers": (together, 38),
    "full disk: largest file": (limited, 285),
    **{f"fuzz {file} ({name})": (partial(fuzzed, (file, name, kind)), 600) for file, name, kind in TARGETS},
}


def run_campaign(folder: Path, seed: int, share: float, *, only: str) -> list[Area]:
    """Run all areas, or those whose name contains `only`, with a share of their cases, but at least one each."""
    load_everything()
    workload, areas = Workload(folder), []
    for name, (torture, cases) in AREAS.items():
        if only in name:
            area, started = Area(name), time.monotonic()
            torture(area, workload, Random(f"{seed} {name}"), max(1, round(cases * share)))
            area.seconds = time.monotonic() - started
            areas.append(area)
    return areas


def main() -> int:
    """Run the campaign; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="the same seed gives the same cases (default: the time)")
    parser.add_argument("--share", type=float, default=1.0, help="share of all cases (default: 1, about an hour)")
    parser.add_argument("--only", default="", help="only areas whose name contains this")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        areas = run_campaign(Path(folder), seed, arguments.share, only=arguments.only)
    failures = [f"{area.name}: {failure}" for area in areas for failure in area.failures[:20]]
    rows = [(area.name, area.cases, len(area.failures), round(area.seconds)) for area in areas]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    lines = [f"{name:45}{cases:>9}{failed:>9}{seconds:>9}" for name, cases, failed, seconds in rows]
    head = f"{'area':45}{'cases':>9}{'failures':>9}{'seconds':>9}"
    sys.stdout.write("\n".join([*failures, head, *lines, f"seed {seed}, share {arguments.share}\n"]))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
