"""How every command starts and ends."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import is_full_disk, unwritable
from tour_pyserini.support.plugins import load_plugins, plugin_files

# Threads that spin while they wait make a busy machine ten times slower; read when the libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

WRONG_INPUT = 2
SIGNALLED = 128  # added to the number of the signal that ended a command, as shells do: 130 after Ctrl-C

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal was closed"}


def run(main: Callable[[Sequence[str] | None], int | None]) -> NoReturn:
    """Load plugins, run a command on the arguments of this process, and leave with its exit code (0 for None).

    Example:
        if __name__ == "__main__":
            run(main)
    """
    try:
        with _ended_by_signals():
            load_plugins(plugin_files(sys.argv[1:]))
            code = main(None)
            sys.stdout.flush()
    except TourError as error:
        _leave(WRONG_INPUT, f"error: {error}")
    except BrokenPipeError:
        # The reader of our output closed it, for example `head`.
        _leave(0)
    except _Ended as ended:
        _leave(SIGNALLED + ended.number, _ended(ended.number))
    except KeyboardInterrupt:
        _leave(SIGNALLED + signal.SIGINT, _ended(signal.SIGINT))
    except OSError as error:
        if not is_full_disk(error):
            raise
        _leave(WRONG_INPUT, f"error: {unwritable(error.filename or 'the output', error)}")
    sys.exit(code)


class _Ended(KeyboardInterrupt):
    """A signal asked the command to end; like Ctrl-C, it removes temporary files and keeps what can be continued."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, unless they are ignored (nohup)."""
    process = os.getpid()
    signals = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        in_command = os.getpid() == process
        for each in signals:  # a second signal does not disturb the end; a process forked from the command just ends
            signal.signal(each, signal.SIG_IGN if in_command else signal.SIG_DFL)
        if in_command:
            raise _Ended(number)
        os.kill(os.getpid(), number)

    for number in signals:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)


def _ended(number: int) -> str:
    return f"{_WORDS[signal.Signals(number)]}; run the same command again to continue from what was kept."


def _leave(code: int, message: str = "") -> NoReturn:
    """Exit after a message. Output that cannot be written any more must not be reported by Python at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with contextlib.suppress(OSError):  # the terminal may be gone
        if message:
            sys.stderr.write(f"{message}\n")
    sys.exit(code)
