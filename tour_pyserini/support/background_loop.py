"""Run coroutines from ordinary code, also where an event loop already runs (a notebook)."""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

Item = TypeVar("Item")
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
    finally:
        future.cancel()


def items_from_background(
    work: Callable[[Callable[[Item], None]], Coroutine[Any, Any, None]],
) -> Generator[Item, None, None]:
    """Run a coroutine in the background, and yield what it hands over as soon as it does.

    When the generator is closed, or the waiting is interrupted, the coroutine is cancelled.

    Args:
        work: makes the coroutine from the function that it hands an item over with.
    """
    items: queue.SimpleQueue[tuple[Item] | None] = queue.SimpleQueue()
    future = asyncio.run_coroutine_threadsafe(work(lambda item: items.put((item,))), _running_loop())
    future.add_done_callback(lambda _: items.put(None))
    try:
        while (handed_over := items.get()) is not None:
            yield handed_over[0]
        future.result()
    finally:
        future.cancel()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():  # not alive: in a forked process
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="tour-background-loop", daemon=True)
            _thread.start()
        return _loop
