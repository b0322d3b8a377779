"""Torture every command, and print one table: `python tests/torture --seed 7`, or `--share 0.1` for a tenth of it."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from campaign import run_campaign  # noqa: E402
from results import table  # noqa: E402


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
