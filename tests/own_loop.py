"""Coroutines in an event loop of their own: a browser of other tests may keep one in this thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def awaited(coroutine):
    """What a coroutine returns."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
