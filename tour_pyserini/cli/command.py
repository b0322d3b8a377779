"""How every command starts and ends."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tour_pyserini.errors import TourError
from tour_pyserini.support.plugins import load_plugins

# Threads that spin while they wait make a busy machine ten times slower; read when the libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

WRONG_INPUT = 2
INTERRUPTED = 130  # the exit code that shells use after Ctrl-C


def run(main: Callable[[Sequence[str] | None], int | None]) -> NoReturn:
    """Load plugins, run a command on the arguments of this process, and leave with its exit code (0 for None).

    Example:
        if __name__ == "__main__":
            run(main)
    """
    try:
        load_plugins()
        code = main(None)
    except TourError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(WRONG_INPUT)
    except BrokenPipeError:
        # The reader of our output closed it, for example `head`; Python must not report that at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to continue from what was kept.\n")
        sys.exit(INTERRUPTED)
    sys.exit(code)
