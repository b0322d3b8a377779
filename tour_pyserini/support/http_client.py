"""Ask a web service that answers in JSON: deadlines, retries with back-off, and one sentence for what goes wrong.

Requests are coroutines; `run_in_background` runs them from ordinary code.
"""

import asyncio
import email.utils
import json
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from json import loads
from typing import Any, NamedTuple, TypeVar

from tour_pyserini.errors import TourError, first_line

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first repetition of a request, and most seconds before any; each wait is twice the one before."""
LONGEST_RETRY_AFTER = 300.0
"""Most seconds that a service may ask to wait (Retry-After); if it asks for more, the request fails."""
LARGEST_ANSWER = 32 << 20
"""Bytes; a larger answer is refused while it is read."""


Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def back_off(attempt: int) -> float:
    """Seconds until the next try; partly random, so that clients that failed together do not return together."""
    return min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)


class Patience(NamedTuple):
    """How long to try.

    Attributes:
        deadline: seconds for one try, from opening the connection to the last byte of the answer.
        retries: further tries after a connection error, a missed deadline, or the status 408, 429 or 5xx.
    """

    deadline: float = 60.0
    retries: int = 6


DEFAULT_PATIENCE = Patience()


class RefusedError(TourError):
    """A service refused a request: it would refuse it again.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServiceAwayError(TourError):
    """A service gave no answer, or none but temporary errors, in all tries."""


class _TemporaryError(Exception):
    """A try failed in a way that another try may not."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class JsonService:
    """A web service that takes and gives JSON. Redirects are not followed.

    Args:
        base: the address that paths are appended to; it is shown in messages.
        key: sent as `Authorization: Bearer KEY`; never part of a message.
        key_variable: the environment variable that the user sets the key in, for messages.
        patience: deadlines and retries.
        connections: connections that are kept open between requests.
    """

    def __init__(self, base: str, *, key: str | None, key_variable: str, patience: Patience, connections: int) -> None:
        self.base = base
        self._key = key
        self._key_variable = key_variable
        self._patience = patience
        self._connections = connections
        self._client: Any = None

    async def get(self, path: str, *, retries: int | None = None) -> Any:
        """The JSON value at a path.

        Args:
            path: begins with a slash.
            retries: instead of the usual number.

        Raises:
            RefusedError: if the service refuses the request.
            TourError: if the service is away, or its answer is not JSON.
        """
        return await self._ask("GET", path, None, retries)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a JSON value that is sent to a path; it raises what `get` raises."""
        return await self._ask("POST", path, json.dumps(body).encode(), None)

    async def _ask(self, method: str, path: str, body: bytes | None, retries: int | None) -> Any:
        retries = self._patience.retries if retries is None else retries
        for attempt in range(retries + 1):
            try:
                async with asyncio.timeout(self._patience.deadline):
                    return _parsed(f"{self.base}{path}", await self._answer(method, path, body))
            except TimeoutError:
                failure = _TemporaryError(f"it did not answer within {self._patience.deadline:g} seconds")
            except _TemporaryError as error:
                failure = error
            if attempt == retries:
                break
            wait = max(failure.retry_after or 0.0, back_off(attempt))
            if wait > LONGEST_RETRY_AFTER:
                raise TourError(
                    f"the service {self.base} asks to wait for {wait:.0f} seconds ({failure}); "
                    "run the command again then."
                )
            log.warning("%s%s: %s; trying again in %.1f s", self.base, path, failure, wait)
            await asyncio.sleep(wait)
        tries = f"in {retries + 1} tries" if retries else "in one try"
        raise ServiceAwayError(
            f"the service {self.base} gave no answer {tries} ({failure}); start it or check the address, "
            "then run the command again."
        )

    async def _answer(self, method: str, path: str, body: bytes | None) -> bytes:
        """The body of the answer to one try."""
        import httpx

        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            stream = self._open_client().stream(method, self.base + path, content=body, headers=headers)
            async with stream as response:
                parts, size = [], 0
                async for part in response.aiter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > LARGEST_ANSWER:
                        raise TourError(
                            f"the answer of {self.base}{path} is larger than {LARGEST_ANSWER >> 20} MiB; "
                            "check the address."
                        )
        except httpx.RequestError as error:
            raise _TemporaryError(first_line(error)) from error
        answer = b"".join(parts)
        if response.status_code == 200:
            return answer
        raise self._failure(path, response.status_code, response.headers, answer)

    def _failure(self, path: str, status: int, headers: Mapping[str, str], answer: bytes) -> Exception:
        said = self._without_key(_said(answer))
        if status in (408, 429) or status >= 500:
            return _TemporaryError(f"status {status}{said}", _retry_after(headers.get("retry-after")))
        address = f"{self.base}{path}"
        if 300 <= status < 400:
            target = self._without_key(headers.get("location", "another address"))
            return RefusedError(f"{address} sends requests on to {target}; give that address if you trust it.", status)
        if status in (401, 403):
            problem = "set the environment variable" if self._key is None else "check the key in"
            return RefusedError(
                f"{address} refuses access (status {status}{said}); {problem} {self._key_variable}.", status
            )
        if status in (404, 405):
            return RefusedError(f"{address} does not exist (status {status}{said}); check the address.", status)
        return RefusedError(f"{address} refuses the request (status {status}{said}); check its settings.", status)

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _open_client(self) -> Any:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                timeout=None,  # the deadline covers everything
                follow_redirects=False,
                # No limit of connections: to wait for a free one would be part of the deadline.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._connections),
            )
        return self._client


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header: a number of seconds, or a date."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _said(answer: bytes) -> str:
    """What a service said about a failure, short enough for a sentence: ": text", or nothing."""
    text = answer[:2000].decode("utf-8", "replace")
    try:
        value = loads(text)
        while isinstance(value, dict):
            value = next(value[name] for name in ("error", "message", "detail") if name in value)
        text = str(value)
    except (ValueError, RecursionError, StopIteration):
        pass
    line = (text.strip().splitlines() or [""])[0].rstrip(".")
    return f": {line if len(line) <= 200 else line[:197] + '...'}" if line else ""


def _parsed(address: str, answer: bytes) -> Any:
    try:
        return loads(answer.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TourError(f"the answer of {address} is not JSON ({first_line(error)}); check the service.") from error


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
