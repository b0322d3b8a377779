"""Damaged files of every format, read through the commands in forked processes that may crash or hang."""

import os
import select
import shutil
import signal
import time
import zlib
from pathlib import Path
from random import Random

from mutations import mutated
from readers import READERS, Reader, fault, write_valid
from results import Area

LONGEST = 20.0  # seconds of one case


def fuzzed(folder: Path, seed: int, cases: int) -> list[Area]:
    """The same number of cases for every format; each case has its own seed."""
    share = -(-cases // len(READERS))
    areas = []
    for name, reader in READERS.items():
        started = time.monotonic()
        area = Area(f"fuzz {name}")
        own = folder / name.replace(" ", "-").replace(",", "-")
        _fuzz(area, reader, own, zlib.crc32(f"{seed} {name}".encode()), share)
        area.seconds = time.monotonic() - started
        areas.append(area)
    return areas


def _fuzz(area: Area, reader: Reader, folder: Path, seed: int, cases: int) -> None:
    """Run cases in a process; if it dies or hangs, that is a failure, and another process goes on after it."""
    valid = folder / "valid"
    target = write_valid(reader, valid).relative_to(valid)
    done = 0
    while done < cases:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            _work(reader, valid, folder / "damaged", target, seed, range(done, cases), write)
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            while select.select([lines], [], [], LONGEST)[0] and (line := lines.readline()):
                area.add(f"seed {seed + done}", line.strip() or None)
                done += 1
            if done < cases:
                os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if done < cases:
            area.add(f"seed {seed + done}", f"the process hung, or ended with exit code {code}")
            done += 1
    shutil.rmtree(folder, ignore_errors=True)


def _work(reader: Reader, valid: Path, damaged: Path, target: Path, seed: int, cases: range, pipe: int) -> None:
    try:
        os.environ["TOUR_PYSERINI_CACHE"] = str(damaged / "cache")
        content = (valid / target).read_bytes()
        for case in cases:
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(valid, damaged)
            (damaged / target).write_bytes(mutated(content, reader.kind, Random(seed + case)))
            said = " ".join((fault(reader, damaged) or "").split())
            os.write(pipe, f"{said[:500]}\n".encode(errors="replace"))
    finally:
        os._exit(0)
