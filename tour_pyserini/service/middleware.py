"""What every request passes: who may ask and how much, when it came, what is counted, safe headers."""

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from tour_pyserini.service.dispatcher import ARRIVED, Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready")
"""Paths that need no key; the files of the page need none either."""
MOST_BYTES = 1_000_000
"""Largest body of a request."""
DISCARDED = 16
"""A body that is too large is read and discarded up to so many times the largest that is allowed."""
BODY_SECONDS = 20.0
"""In this time a body must be there."""
HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'"),  # pages have a policy of their own for scripts and styles
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of all answers: no other site may show them in a frame, and no browser takes them for another type."""


class Guard:
    """Times and counts requests, and refuses those without the key, with a foreign host name, or that are too large.

    Args:
        app: the application.
        metrics: where answers are counted, by route and status.
        routes: first parts of paths that are counted by name; others together, so that nobody can invent names.
        pages: paths of the files of the page.
        key: the key that requests must have; None: there is none.
        names: host names that it answers to, so that a page of another site cannot reach it by a name that leads
            here; None: any.
    """

    def __init__(
        self,
        app: App,
        metrics: Metrics,
        *,
        routes: Collection[str],
        pages: Collection[str],
        key: str | None,
        names: Collection[str] | None,
    ) -> None:
        self._app, self._metrics, self._routes, self._pages = app, metrics, routes, pages
        self._key, self._names = key, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ARRIVED] = time.monotonic()  # before anything reads it
        first = scope["path"].split("/")[1:2]  # `OPTIONS *` has none
        route = first[0] if first and first[0] in self._routes else "other"

        async def observed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._metrics.request(route, message["status"])
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._names is not None and _host(headers) not in self._names:
            await _refuse(observed, 421, "this service answers to the names of its own machine only.")
        elif not self._may_enter(scope, headers):
            await _refuse(observed, 401, "the key is missing or wrong.", {"WWW-Authenticate": "Bearer"})
        elif headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            await self._app(scope, receive, observed)
        else:
            await self._with_body(scope, headers, receive, observed)

    def _may_enter(self, scope: Scope, headers: dict[str, str]) -> bool:
        is_page = scope["method"] in ("GET", "HEAD") and scope["path"] in self._pages
        if self._key is None or scope["path"] in OPEN or is_page:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(given.encode("latin-1", "replace"), self._key.encode())

    async def _with_body(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        """Read the body of a request, then answer it: who sends slowly keeps nothing busy."""
        length = headers.get("content-length", "")
        is_large = length.isdecimal() and int(length[:20]) > MOST_BYTES
        messages: list[MutableMapping[str, Any]] = []
        # A connection that is closed before all of a body was read is reset, and the client may lose the answer.
        left, more = DISCARDED * MOST_BYTES, not (is_large and "expect" in headers)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                while more and left > 0:
                    message = await receive()
                    more = message.get("more_body", False)
                    left -= len(message.get("body", b""))
                    is_large = is_large or left < (DISCARDED - 1) * MOST_BYTES
                    messages = [] if is_large else [*messages, message]
        if is_large:
            await _refuse(send, 413, f"the request has more than {MOST_BYTES} bytes.", {"Connection": "close"})
        elif more:
            await _refuse(send, 408, "the body of the request came too slowly.", {"Connection": "close"})
        else:
            messages.reverse()

            async def replay() -> MutableMapping[str, Any]:
                return messages.pop() if messages else await receive()

            await self._app(scope, replay, send)


async def _refuse(send: Send, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
    """Send an answer that says in one sentence why there is no other."""
    body = json.dumps({"detail": detail}).encode()
    given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    encoded = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _host(headers: dict[str, str]) -> str | None:
    """The name in the header Host, without the port."""
    with contextlib.suppress(ValueError):
        return urlsplit("//" + headers.get("host", "")).hostname
    return None
