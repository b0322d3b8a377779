"""Every write of every command fails once, because files may not grow or because the disk is full."""

import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


def filled(workload: Workload, random: Random, cases: int) -> Area:
    """A small disk with a few kilobytes left, at which all commands write; needs the right to mount one."""
    area = Area("full disk: tmpfs")
    for step in workload.chosen(random, cases):
        workload.reference(step)
        room = random.choice([0, 4096, 8192, 16384, 65536])
        with _small_disk(workload.case) as mounted:
            if not mounted:
                break
            _fill_case(workload, step, room)
            before = workload.files()
            outcome = Process(step.work).wait()
            (workload.case / "ballast").unlink()
            fault = outcome.fault or _unclear(outcome.stderr, outcome.code) or workload.torn(step)
            if fault is None and outcome.code == 2:
                changed = [name for name, content in before.items() if workload.files().get(name) != content]
                lost = [name for name in changed if name in workload.template_files and not name.startswith("scores")]
                fault = f"changed {lost}" if lost else None
            area.add(f"{step.name}, {room} bytes left", fault or workload.repeated(step))
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


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def _fill_case(workload: Workload, step: Step, room: int) -> None:
    """Write the collection into the mounted folder, then fill the disk up to the last bytes."""
    workload.refill(step)
    with open(workload.case / "ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - room))
