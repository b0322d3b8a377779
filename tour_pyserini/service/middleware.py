"""What every request passes: who may ask and how much, when it came, what is counted, safe headers."""

import asyncio
import contextlib
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tour_pyserini.service.dispatcher import ALLOWED, ARRIVED, Dispatcher
from tour_pyserini.service.serving import digest

_OPEN = ("/health", "/ready")
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
        dispatcher: counts answers, and has the keys. It answers to the names of its machine only, so that a page of
            another site cannot reach it by a name that leads here.
        routes: first parts of paths that are counted by name; others together, so that nobody can invent names.
        pages: paths of the files of the page.
    """

    def __init__(
        self, app: ASGIApp, dispatcher: Dispatcher, *, routes: Collection[str], pages: Collection[str]
    ) -> None:
        self._app, self._dispatcher, self._routes, self._pages = app, dispatcher, routes, pages
        self._names = dispatcher.limits.names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope[ARRIVED] = time.monotonic()  # before anything reads it
        first = scope["path"].split("/")[1:2]  # `OPTIONS *` has none
        route = first[0] if first and first[0] in self._routes else "other"

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._dispatcher.count(route, message["status"])
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        app, headers = self._app, Headers(scope=scope)
        if self._names is not None and _host(headers) not in self._names:
            app = _refusal(421, "this service answers to the names of its own machine only.")
        elif not self._admit_key(scope, headers):
            app = _refusal(401, "the key is missing or wrong.", {"WWW-Authenticate": "Bearer"})
        elif headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            app, receive = await self._read(headers, receive)
        with contextlib.suppress(Exception):  # Starlette has answered it, and raises it again: who serves would hang up
            await app(scope, receive, observed)

    def _admit_key(self, scope: Scope, headers: Headers) -> bool:
        """Whether a request has a key, if it needs one; its scope then says which documents it may find."""
        keys = self._dispatcher.keys
        if keys is None:
            scope[ALLOWED] = None
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = digest(bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", ""))
        if given in keys:
            scope[ALLOWED] = keys[given]
            return True
        is_page = scope["method"] in ("GET", "HEAD") and scope["path"] in self._pages
        return scope["path"] in _OPEN or is_page

    async def _read(self, headers: Headers, receive: Receive) -> tuple[ASGIApp, Receive]:
        """Read a body, so that who sends slowly keeps nothing busy: what answers it, and where that reads it again."""
        size, parts = int(headers.get("content-length", "0")[:20]), list[Message]()
        # A connection that is closed before all of a body was read is reset, and the client may lose the answer.
        read, more = 0, not (size > MOST_BYTES and "expect" in headers)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                while more and read < DISCARDED * MOST_BYTES:
                    message = await receive()
                    more, read = message.get("more_body", False), read + len(message.get("body", b""))
                    if max(size, read) <= MOST_BYTES:
                        parts.append(message)
        if max(size, read) > MOST_BYTES:
            return _refusal(413, f"the request has more than {MOST_BYTES} bytes.", {"Connection": "close"}), receive
        if more:
            return _refusal(408, "the body of the request came too slowly.", {"Connection": "close"}), receive
        parts.reverse()

        async def replay() -> Message:
            return parts.pop() if parts else await receive()

        return self._app, replay


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> Any:
    """Answers that there is no other answer, and why in one sentence."""
    return JSONResponse({"detail": detail}, status, headers)


def _host(headers: Headers) -> str | None:
    """The name in the header Host, without the port."""
    with contextlib.suppress(ValueError):
        return urlsplit("//" + headers.get("host", "")).hostname
    return None
