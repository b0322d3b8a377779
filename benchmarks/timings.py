"""Time and memory of programs and functions, and a description of the machine."""

import contextlib
import importlib
import io
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import cores, cpu_flags

RSS_UNIT = 1024 if sys.platform != "darwin" else 1  # bytes in the unit of ru_maxrss


def describe_machine() -> str:
    """Today's date, the number of cores, their instruction sets, and the load."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    flags = ", ".join(cpu_flags() or ()) or "instruction sets unknown"
    return f"Measured {date.today().isoformat()} on {cores()} cores ({flags}){load}."


class TimedProcess(NamedTuple):
    """Wall-clock seconds of a program, and what it printed."""

    seconds: float
    output: str


def run_module(module: str, arguments: Sequence[object], *, here: bool = False) -> TimedProcess:
    """Run `python -m module` to its end, in a process of its own, or in this one."""
    words = list(map(str, arguments))
    start = time.perf_counter()
    if here:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            importlib.import_module(module).main(words)
        return TimedProcess(time.perf_counter() - start, printed.getvalue())
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise TourError(f"{module} {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return TimedProcess(seconds, done.stdout)


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    # `getrusage` starts at what the parent process had used; Linux also has the figure of this program alone.
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


class Timings(NamedTuple):
    """Seconds of each function in every round, float64 [rounds], and what each returned when it warmed up."""

    seconds: Mapping[str, np.ndarray]
    results: Mapping[str, Any]

    def best(self, name: str) -> float:
        """The shortest time of a function."""
        return float(self.seconds[name].min())

    def ratio(self, reference: str, name: str) -> float:
        """How many times as fast as the reference: the median over rounds of the quotient within a round."""
        return float(np.median(self.seconds[reference] / self.seconds[name]))


def time_in_turns(functions: Mapping[str, Callable[[], object]], *, rounds: int) -> Timings:
    """Call every function once per round, after one call to warm up.

    They take turns, so that anything that slows the machine down slows all of them down.
    """
    results = {name: function() for name, function in functions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return Timings({name: np.array(times) for name, times in seconds.items()}, results)
