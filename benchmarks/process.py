"""A program's time and memory, as the system counts them."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from tour_pyserini.errors import TourError

KIB = 1024 if sys.platform != "darwin" else 1  # what the largest memory is counted in


class Spent(NamedTuple):
    """Wall-clock seconds, the largest memory in bytes, and what the program printed."""

    seconds: float
    memory: int
    said: str


def spent(module: str, arguments: Sequence[object]) -> Spent:
    """Run `python -m module` to its end, in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complaint:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=said, stderr=complaint)
        # wait() would forget what the child used.
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        for file in (said, complaint):
            file.seek(0)
        if child.returncode:
            raise TourError(f"{' '.join(command)} ended with {child.returncode}: {complaint.read().strip()[-500:]}")
        return Spent(seconds, usage.ru_maxrss * KIB, said.read())
