"""How every command ends."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tour_pyserini.errors import TourError

# Threads that wait by spinning slow a busy machine down by an order of magnitude; read when the libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

WRONG_INPUT = 2
INTERRUPTED = 130  # what shells give a program that Ctrl-C ended


def run(main: Callable[[Sequence[str] | None], int | None]) -> NoReturn:
    """Run a command on the arguments of this process and leave with its exit code (0 where it returns none).

    Example:
        if __name__ == "__main__":
            run(main)
    """
    try:
        code = main(None)
    except TourError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(WRONG_INPUT)
    except BrokenPipeError:
        # Whoever read our output has had enough; Python must not complain about it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to go on with what was finished and kept.\n")
        sys.exit(INTERRUPTED)
    sys.exit(code)
