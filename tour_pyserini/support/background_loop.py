"""Run a coroutine from ordinary code, also where an event loop already runs (a notebook)."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in the event loop of a background thread, and wait for its result.

    All coroutines share that loop, so that what they hold open (connections) can be used by the next one. If the
    waiting is interrupted (Ctrl-C), the coroutine is cancelled.
    """
    future = asyncio.run_coroutine_threadsafe(work, _running_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():  # not alive: in a forked process
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="tour-background-loop", daemon=True)
            _thread.start()
        return _loop
