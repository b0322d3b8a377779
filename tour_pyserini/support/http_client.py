"""Ask a web service that answers in JSON: deadlines, retries with back-off, and one sentence for what goes wrong.

Requests are coroutines; `from_background` runs them from ordinary code.
"""

import asyncio
import json
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tour_pyserini.errors import TourError, first_line

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first repetition of a request, and most seconds before any; each wait is twice the one before."""
_LONGEST_RETRY_AFTER = 300.0
"""Most seconds that a service may ask to wait (Retry-After); if it asks for more, the request fails."""
_LARGEST_ANSWER = 32 << 20
"""Bytes; a larger answer is refused while it is read."""

Item = TypeVar("Item")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def back_off(attempt: int) -> float:
    """Seconds until the next try; partly random, so that clients that failed together do not return together."""
    return min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)


class RefusedError(TourError):
    """A service refused a request, with that HTTP status: it would refuse it again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _TemporaryError(Exception):
    """A try failed in a way that another try may not."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class JsonService:
    """A web service that takes and gives JSON, uncompressed. Redirects are not followed.

    Args:
        base: the address that paths are appended to; it is shown in messages.
        key_variable: the environment variable with the key, if there is one, which is sent as
            `Authorization: Bearer KEY` and is never part of a message.
        deadline: seconds for one try, from opening the connection to the last byte of the answer.
        retries: further tries after a connection error, a missed deadline, or the status 408, 429 or 5xx.
        connections: connections that are kept open between requests.
    """

    def __init__(self, base: str, *, key_variable: str, deadline: float, retries: int, connections: int) -> None:
        self.base, self._key_variable = base, key_variable
        self._key = os.environ.get(key_variable, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise TourError(f"the key in {key_variable} has characters that cannot be sent; set it again.")
        parts = urlsplit(base)
        if self._key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            log.warning("the key in %s is sent to %s without encryption", key_variable, parts.netloc)
        self._deadline, self._retries, self._connections = deadline, retries, connections
        self._client: Any = None

    async def ask(self, path: str, body: Mapping[str, Any] | None = None, *, retries: int | None = None) -> Any:
        """The JSON value at a path, or the answer to a JSON object that is posted there.

        Args:
            path: begins with a slash.
            body: what is posted; None for GET.
            retries: instead of the usual number.

        Raises:
            RefusedError: if the service refuses the request.
            TourError: if the service is away, or its answer is not JSON.
        """
        retries = self._retries if retries is None else retries
        for attempt in range(retries + 1):
            try:
                async with asyncio.timeout(self._deadline):
                    answer = await self._answer(path, body)
            except TimeoutError:
                failure = _TemporaryError(f"it did not answer within {self._deadline:g} seconds")
            except _TemporaryError as error:
                failure = error
            else:
                try:
                    return json.loads(answer.decode("utf-8"))
                except (ValueError, RecursionError) as error:
                    raise TourError(
                        f"the answer of {self.base}{path} is not JSON ({first_line(error)}); check the service."
                    ) from error
            if attempt == retries:
                break
            wait = max(failure.retry_after, back_off(attempt))
            if wait > _LONGEST_RETRY_AFTER:
                raise TourError(
                    f"the service {self.base} asks to wait for {wait:.0f} seconds ({failure}); "
                    "run the command again then."
                )
            log.warning("%s%s: %s; trying again in %.1f s", self.base, path, failure, wait)
            await asyncio.sleep(wait)
        tries = f"in {retries + 1} tries" if retries else "in one try"
        raise TourError(
            f"the service {self.base} gave no answer {tries} ({failure}); start it or check the address, "
            "then run the command again."
        )

    async def _answer(self, path: str, body: Mapping[str, Any] | None) -> bytes:
        """The body of the answer to one try."""
        import httpx

        if self._client is None:
            authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._client = httpx.AsyncClient(
                # Compressed answers could be of any size when they are unpacked, however small they are.
                headers={"Accept-Encoding": "identity", **authorization},
                timeout=None,  # the deadline covers everything
                # No limit of connections: to wait for a free one would be part of the deadline.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._connections),
            )
        address, method, answer = self.base + path, "GET" if body is None else "POST", bytearray()
        try:
            async with self._client.stream(method, address, json=body) as response:
                encoding = response.headers.get("content-encoding", "identity")
                if encoding.strip().lower() != "identity":
                    raise TourError(f"the answer of {address} is encoded ({encoding:.40}), unasked; check the service.")
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > _LARGEST_ANSWER:
                        most = f"{_LARGEST_ANSWER >> 20} MiB"
                        raise TourError(f"the answer of {address} is larger than {most}; check the address.")
        except httpx.RequestError as error:
            raise _TemporaryError(self._without_key(first_line(error))) from error
        if response.status_code == 200:
            return bytes(answer)
        raise self._failure(address, response.status_code, response.headers, answer)

    def _failure(self, address: str, status: int, headers: Mapping[str, str], answer: bytearray) -> Exception:
        said = f"status {status}{self._said(answer)}"
        if status in (408, 429) or status >= 500:
            return _TemporaryError(said, _retry_after(headers.get("retry-after", "")))
        if 300 <= status < 400:
            target = self._without_key(headers.get("location", "another address"))
            problem = f"sends requests on to {target}; give that address if you trust it."
        elif status in (401, 403):
            advice = "check the key in" if self._key else "set the environment variable"
            problem = f"refuses access ({said}); {advice} {self._key_variable}."
        elif status in (404, 405):
            problem = f"does not exist ({said}); check the address."
        else:
            problem = f"refuses the request ({said}); check its settings."
        return RefusedError(f"{address} {problem}", status)

    def _said(self, answer: bytearray) -> str:
        """What a service said about a failure, short enough for a sentence: ": text", or nothing."""
        text = answer.decode("utf-8", "replace")
        with suppress(ValueError, RecursionError, StopIteration):
            value = json.loads(text)
            while isinstance(value, dict):
                value = next(value[name] for name in ("error", "message", "detail") if name in value)
            text = str(value)
        line = (self._without_key(text).strip().splitlines() or [""])[0].rstrip(".")  # before it is cut
        return f": {line if len(line) <= 200 else line[:197] + '...'}" if line else ""

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _retry_after(header: str) -> float:
    """Seconds of a Retry-After header: a number of seconds, or a date; 0 if it is neither."""
    for read in (int, lambda date: parsedate_to_datetime(date).timestamp() - time.time()):
        with suppress(ValueError, OverflowError):
            return max(0.0, float(read(header)))
    return 0.0


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Await `work(item)` for each item, so many at a time; after the first error, nothing new is begun.

    What was begun then is awaited, because it may have been paid for.
    """
    waiting, failures = iter(items), list[Exception]()  # shared: each worker takes the next item

    async def worker() -> None:
        while not failures and (item := next(waiting, None)) is not None:
            try:
                await work(item)
            except Exception as error:
                failures.append(error)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    if failures:
        raise failures[0]


def from_background(work: Callable[[Callable[[Item], None]], Coroutine[Any, Any, None]]) -> Generator[Item, None, None]:
    """Run a coroutine in the event loop of a background thread, and yield what it hands over as soon as it does.

    All coroutines share that loop, so that what they hold open (connections) can be used by the next one. When the
    generator is closed, or the waiting is interrupted (Ctrl-C), the coroutine is cancelled.

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
