"""Worker processes that end with the process that started them, however that one ends."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import parent_process
from multiprocessing.connection import wait

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


def end_with_parent() -> None:
    """Called first in a worker process: if its parent ends, even by SIGKILL, the worker ends too.

    A thread waits until the parent's end of a pipe is closed, which works on every system. Linux also sends a signal,
    which needs no turn of the Python interpreter.
    """
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def kill_workers(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool at once; its `shutdown` would wait for what they are doing."""
    for worker in list((pool._processes or {}).values()):  # from Python 3.14 on, this is `pool.kill_workers()`
        worker.kill()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
