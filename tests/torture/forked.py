"""Run a command in a forked process: all libraries are loaded, so that a moment of its work can be chosen."""

import contextlib
import importlib
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

COMMANDS = ("answers", "cache", "compare", "convert", "experiment", "index", "page", "search", "train")
LIBRARIES = (
    *("faiss", "ir_measures", "matplotlib.figure", "onnxruntime", "pandas"),
    *("scipy.stats", "sklearn", "torch", "transformers", "yaml"),
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST = 600.0  # seconds, also on a busy machine; a command that takes longer hangs


@dataclass
class Area:
    """One row of the table: the cases, and those that failed, with what is needed to do them again."""

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: str, fault: str | None) -> None:
        """Count a case; a fault that is not None is a failure."""
        self.cases += 1
        if fault is not None:
            self.failures.append(f"{case}: {fault}")


class Outcome(NamedTuple):
    """How a command ended: its exit code (negative: the signal), what it wrote to stderr, and its seconds."""

    code: int
    stderr: str
    seconds: float

    @property
    def fault(self) -> str | None:
        """What no command may do, if it did."""
        if self.code == -signal.SIGALRM:
            return f"it took more than {LONGEST:.0f} s"
        if "Traceback" in self.stderr or self.code not in (0, 1, 2):
            return f"exit code {self.code}: {self.stderr[-300:]}"
        if self.code == 2 and not self.stderr.splitlines()[-1].startswith("error: "):
            return f"exit code 2 without a sentence: {self.stderr[-300:]}"
        return None


class Process:
    """A forked process with a pipe for its stderr."""

    def __init__(self, work: Callable[[], object], *, largest_file: int | None = None) -> None:
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.started = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the command has begun
        self.pid = os.fork()
        if not self.pid:
            os.close(read)
            _child(work, write, largest_file)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.close(write)
        self._pipe = read

    def ended(self, number: int, *, after: float) -> Outcome:
        """Send a signal this many seconds after the start, or at the end if it ends before, and wait for the end."""
        handle = os.pidfd_open(self.pid)
        select.select([handle], [], [], max(0.0, self.started + after - time.monotonic()))
        os.close(handle)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> Outcome:
        """Wait for the end."""
        content, hangs = b"", False
        while not hangs:
            hangs = not select.select([self._pipe], [], [], max(0.0, self.started + LONGEST - time.monotonic()))[0]
            if hangs:
                os.kill(self.pid, signal.SIGKILL)
            elif part := os.read(self._pipe, 65536):
                content += part
            else:
                break
        os.close(self._pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        seconds = time.monotonic() - self.started
        return Outcome(-signal.SIGALRM if hangs else code, content.decode(errors="replace"), seconds)


def load_everything() -> None:
    """Import what commands import, so that a forked process starts to work at once."""
    for name in (*LIBRARIES, *(f"tour_pyserini.{name}" for name in COMMANDS)):
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)


def command(name: str, arguments: list[str]) -> Callable[[], object]:
    """The work of a command, from its arguments to its exit code."""

    def begin(_: object) -> int | None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return importlib.import_module(f"tour_pyserini.{name}").main(arguments)

    def work() -> None:
        from tour_pyserini.command import run

        run(begin)

    return work


def _child(work: Callable[[], object], pipe: int, largest_file: int | None) -> None:
    code = 1
    try:
        os.dup2(pipe, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with SIGINT ignored
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
