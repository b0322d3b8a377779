"""Read a FAISS file on trial, in a process of its own with limits: for kinds whose layout cannot be checked."""

import os
import subprocess
import sys
from pathlib import Path

_ROOM = 1 << 30  # bytes that reading may need beyond the size of the file
_SECONDS = 60.0  # of processor time; and one more for each of these bytes:
_BYTES_PER_SECOND = 20 << 20
# The process reads the file and searches once. It must not import modules from the current folder (-P).
_PROGRAM = """
import resource, sys
import faiss, numpy
path, flags, room, seconds = sys.argv[1], *map(int, sys.argv[2:])
faiss.omp_set_num_threads(1)
try:
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room,) * 2)
except (OSError, ValueError):
    pass  # not Linux: the time is limited nevertheless
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
try:
    index = faiss.read_index(path, flags)
    index.search(numpy.full((1, index.d), 0.1, dtype=numpy.float32), max(1, min(10, index.ntotal)))
except (RuntimeError, MemoryError):
    sys.exit(3)
"""


def try_reading(path: str | os.PathLike[str], flags: int = 0) -> None:
    """Read and search a FAISS index in another process, which a damaged file may end.

    Args:
        path: the file.
        flags: those of `faiss.read_index`.

    Raises:
        ValueError: if FAISS refuses the file, ends, or needs too much memory or time; the reason, without the path.
    """
    size = Path(path).stat().st_size
    seconds = _SECONDS + size / _BYTES_PER_SECOND
    words = [os.fspath(path), str(flags), str(_ROOM + 3 * size), str(int(seconds))]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10 * seconds,  # of the clock: other processes may use the processors too
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError("reading it takes too long") from None
    if done.returncode == 3:
        raise ValueError("FAISS refuses it")
    if done.returncode:
        raise ValueError("FAISS ends, or needs too much memory or time, when it reads it")
