"""Every write of every command fails once, because files may not grow."""

import zlib
from random import Random

from forked import Process
from results import Area
from workload import Step, Workload

SMALLEST = 16  # bytes; Python's tempfile looks for a folder in which it can write 4


def limited(workload: Workload, random: Random, cases: int) -> Area:
    """No file may be larger than a limit: every file that the command writes is cut once."""
    area = Area("full disk: largest file")
    for number, step in enumerate(workload.chosen(random, cases)):
        limits = _limits(workload, step)
        if number // len(workload.steps) >= len(limits):
            continue  # every limit was tried
        limit = limits[number // len(workload.steps)]
        workload.reset(step)
        outcome = Process(step.work, largest_file=limit).wait()
        fault = outcome.fault or _unclear(outcome.stderr, outcome.code) or workload.torn(step)
        if fault is None and (left := workload.temporaries()):
            fault = f"left {left}"
        area.add(f"{step.name}, at most {limit} bytes", fault or workload.repeated(step))
    return area


def _limits(workload: Workload, step: Step) -> list[int]:
    """Limits at which each file that the step writes fails: in its first bytes, in the middle, and at its last byte."""
    reference = workload.reference(step)
    sizes = {len(content) for name, content in reference.files.items() if name not in workload.template_files}
    limits = {SMALLEST, *(size // 2 for size in sizes), *(size - 1 for size in sizes)}
    return sorted(limits, key=lambda limit: zlib.crc32(b"%d" % limit))  # in an order that is the same each time


def _unclear(stderr: str, code: int) -> str | None:
    """A full disk that is an error must be named as one."""
    if code == 2 and not any(word in stderr for word in ("cannot write", "cannot be", "could not", "disk")):
        return f"an unclear message: {stderr[-300:]}"
    return None
