"""A program's time and memory, as the system counts them."""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError

KIB = 1024 if sys.platform != "darwin" else 1  # what the largest memory is counted in


class Spent(NamedTuple):
    """Wall-clock seconds, and what the program printed."""

    seconds: float
    said: str


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes.

    Where Linux tells it, that of this program alone: what `getrusage` says starts at what the parent had used.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def spent(module: str, arguments: Sequence[object]) -> Spent:
    """Run `python -m module` to its end, in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complaint:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=said, stderr=complaint)
        child.wait()
        seconds = time.perf_counter() - start
        for file in (said, complaint):
            file.seek(0)
        if child.returncode:
            raise TourError(f"{' '.join(command)} ended with {child.returncode}: {complaint.read().strip()[-500:]}")
        return Spent(seconds, said.read())
