"""What every request passes: who may ask and how much, when it came and when its answer was sent, safe headers."""

import asyncio
import contextlib
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import Request

from tour_pyserini.errors import TourError
from tour_pyserini.service.jobs import Job
from tour_pyserini.service.metrics import Metrics
from tour_pyserini.service.serve_request import KEY_VARIABLE, ServeRequest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready")
"""Paths that need no key; the files of the page need none either."""
SHORTEST_KEY = 8
DISCARDED = 16
"""A body that is too large is read and discarded up to so many times the largest that is allowed."""
DISCARD_SECONDS = 10.0
HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'"),  # pages have a policy of their own for scripts and styles
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of all answers: no other site may show them in a frame, and no browser takes them for another type."""
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")
_ARRIVED, _ANSWERED = "tour_pyserini.arrived", "tour_pyserini.answered"


class ObservedApp:
    """An application whose requests are timed and counted, and whose answers have safe headers.

    Args:
        app: the application.
        metrics: where answers are counted, by route and status.
        routes: first parts of paths that are counted by name; others together, so that nobody can invent names.
        sent: told when the answer has been sent that is made of these jobs.
    """

    def __init__(
        self, app: App, metrics: Metrics, *, routes: Collection[str], sent: Callable[[Sequence[Job]], None]
    ) -> None:
        self._app, self._metrics, self._routes, self._sent = app, metrics, frozenset(routes), sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope[_ARRIVED] = time.monotonic()  # before anything reads it
        first = scope.get("path", "/").split("/")[1:2]  # `OPTIONS *` has none
        route = first[0] if first and first[0] in self._routes else "other"

        async def observed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._metrics.request(route, message["status"])
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self._app(scope, receive, observed)
        if scope.get(_ANSWERED):
            self._sent(scope[_ANSWERED])


def arrival(request: Request | None) -> float:
    """When a request came, by the clock `time.monotonic`; one that did not come by this way comes now."""
    return request.scope.get(_ARRIVED, time.monotonic()) if request else time.monotonic()


def note_answered(request: Request, jobs: Sequence[Job]) -> None:
    """Tell that these jobs are what the answer to the request is made of."""
    request.scope[_ANSWERED] = jobs


def local_names(request: ServeRequest) -> Collection[str] | None:
    """The host names that a service of this machine only answers to; None: any, because others reach it too."""
    return {*_LOCAL_NAMES, request.host} if request.is_local else None


def read_key(request: ServeRequest) -> str | None:
    """The key that requests must have, from its file or the environment; None if there is none.

    Raises:
        TourError: if it cannot be read, is too short, or is missing where others can reach the service.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if request.key_file:
        try:
            key = next(iter(Path(request.key_file).read_text(encoding="utf-8").splitlines()), "").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TourError(f"cannot read the key in {request.key_file}: {error}.") from error
        if not key:
            raise TourError(f"the first line of {request.key_file} is empty; write the key there.")
    if key and not (len(key) >= SHORTEST_KEY and key.isascii() and key.isprintable()):
        raise TourError(f"the key must have {SHORTEST_KEY} characters or more, all of them ASCII.")
    if request.no_key:
        return None
    if not key and not request.is_local:
        raise TourError(
            f"--host {request.host} lets other machines in: give a key with --key-file or {KEY_VARIABLE}, "
            "or --no-key to let everybody in."
        )
    return key or None


class Guard:
    """Refuses requests without the key, with a foreign host name, or that are too large, before anything reads them.

    Args:
        app: what is guarded.
        key: the key; None: there is none.
        most_bytes: largest body.
        names: host names that it answers to, so that a page of another site cannot reach it by a name that leads
            here; None: any.
        is_page: whether a path is a file of the page.
    """

    def __init__(
        self,
        app: App,
        *,
        key: str | None,
        most_bytes: int,
        names: Collection[str] | None,
        is_page: Callable[[str], bool],
    ) -> None:
        self._app, self._key, self._most_bytes, self._names, self._is_page = app, key, most_bytes, names, is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._names is not None and _host(headers.get("host", "")) not in self._names:
            await refuse(send, 421, "this service answers to the names of its own machine only.")
        elif not self._may_enter(scope, headers):
            await refuse(send, 401, "the key is missing or wrong.", {"WWW-Authenticate": "Bearer"})
        elif _declared(headers) > self._most_bytes:
            # Who asks before sending a body sends none when it is refused.
            await self._too_large(send, None if "expect" in headers else receive)
        else:
            await self._limited(scope, receive, send)

    def _may_enter(self, scope: Scope, headers: dict[str, str]) -> bool:
        if (
            self._key is None
            or scope["path"] in OPEN
            or (scope["method"] in ("GET", "HEAD") and self._is_page(scope["path"]))
        ):
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(given.encode("latin-1", "replace"), self._key.encode())

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count the bytes of its body, whose length may not have been declared."""
        read, too_large, more, answering = 0, False, True, False

        async def counted() -> MutableMapping[str, Any]:
            nonlocal read, too_large, more
            message = await receive()
            read += len(message.get("body", b""))
            more = message.get("more_body", False)
            if read > self._most_bytes:
                too_large = True
                return {"type": "http.disconnect"}
            return message

        async def guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal answering
            if not too_large:
                answering = True
                await send(message)

        try:
            await self._app(scope, counted, guarded)
        except Exception:
            if not too_large:
                raise
        if too_large and not answering:
            await self._too_large(send, receive if more else None)

    async def _too_large(self, send: Send, receive: Receive | None) -> None:
        """Refuse a body, after what is still to come of it from `receive` was discarded.

        A connection that is closed before all of it was read is reset, and the client may lose the answer.
        """
        if receive is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCARD_SECONDS):
                    await _discard(receive, DISCARDED * self._most_bytes)
        await refuse(send, 413, f"the request has more than {self._most_bytes} bytes.", {"Connection": "close"})


async def _discard(receive: Receive, most_bytes: int) -> None:
    """Read the rest of a body, or so many bytes of it."""
    read, more = 0, True
    while more and read < most_bytes:
        message = await receive()
        read += len(message.get("body", b""))
        more = message.get("more_body", False)


async def refuse(send: Send, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
    """Send an answer that says in one sentence why there is no other."""
    body = json.dumps({"detail": detail}).encode()
    given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    encoded = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdigit() else header).lower()


def _declared(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0
