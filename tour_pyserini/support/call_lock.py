"""A lock for calls that change the state of an object, such as the truncation of a tokenizer."""

import threading
from typing import Any


class CallLock:
    """Lets one thread at a time into a block; a copy, also one that was sent to another process, is a lock of its own.

    An object that has it can be pickled, which an object with a lock of `threading` cannot.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return CallLock, ()
