"""Serving: what a service is asked to do, and its connections."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from tour_pyserini.data.input_files import read_lines
from tour_pyserini.errors import TourError
from tour_pyserini.flags import option
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.filters import Filter

KEY_VARIABLE = "TOUR_PYSERINI_SERVICE_KEY"
_SHORTEST_KEY = 8
_SERVING, _LIMITS = "how it is served", "what a request may ask for"

CONNECTIONS = 1000
"""Most connections, or half of the descriptors that the process may open, if these are fewer."""
PATIENCE = 10.0
"""Seconds in which the line and the headers of a request must be there, and in which a client must read something."""
_ACCEPTED = 16
"""Connections that are accepted before any of them is looked at."""


@dataclass(frozen=True, kw_only=True)
class ServeRequest(SearchRequest):
    """Serve searches of one index; the fields are the flags of `python -m tour_pyserini.serve`.

    Attributes:
        host: the address that it listens on. Another one than this machine's own needs a key.
        port: its port; 0: any that is free.
        at_once: searches that advance together.
        queue: searches that may wait for their turn; who comes then is sent away.
        judgements: where judgements are kept; None: there are none.
    """

    NO_FLAGS = frozenset(
        (
            *("topics_format", "qrels", "remove_query", "output", "output_format", "output_queries", "trace", "tag"),
            *("trace_vectors", "hits", "shard", "ray", "ray_workers", "batch_size", "encoded_queries", "predictions"),
            "run",
            *("unit", "max_words", "context", "separator", "title"),
        )
    )
    topics: str = option("", "queries of the page; `demo` serves the embedded collection", group="what is searched")
    host: str = option("127.0.0.1", "address to listen on", group=_SERVING, common=True)
    port: int = option(8080, "port to listen on; 0: any that is free", group=_SERVING, common=True)
    keys: str | None = option(
        None,
        f'file of lines KEY FILTER, such as `aKeyOfAcme {{"tenant": "acme"}}`: all that a key finds passes its filter; '
        f"with `*` for all documents, as the key in {KEY_VARIABLE}",
        group=_SERVING,
    )
    no_key: bool = option(False, "let everybody in who reaches --host", group=_SERVING)
    at_once: int = option(16, "searches that advance together", group=_SERVING, count=True)
    queue: int = option(128, "searches that may wait; more are sent away with 429", group=_SERVING, count=True)
    judgements: str | None = option(None, "keep what people judge on the page in this file, as qrels", group=_SERVING)
    most_hits: int = option(1_000, "length of a list, and depth of a round", group=_LIMITS, count=True)
    most_labels: int = option(200, "labels of a query, or passages of a request to re-rank", group=_LIMITS, count=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port <= 65_535:
            raise TourError(f"--port must be a number from 0 to 65535, not {self.port!r}.")
        if self.no_key and self.keys:
            raise TourError("--keys and --no-key contradict each other; leave one out.")

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def names(self) -> set[str] | None:
        """The host names that a service of this machine only answers to; None: any, because others reach it too."""
        return {"127.0.0.1", "localhost", "::1", self.host} if self.is_local else None

    def read_keys(self) -> "Keys | None":
        """The keys of which requests must have one, from their file and the environment; None if there is none.

        Raises:
            TourError: if they cannot be read, are too short, or are missing where others can reach the service.
        """
        if self.no_key:
            return None
        key = os.environ.get(KEY_VARIABLE, "").strip()
        found: dict[str, Filter | None] = {key: None} if key else {}
        for line in read_lines(self.keys, comments=True) if self.keys else ():
            tenant, *given = line.text.split(maxsplit=1)
            if not given or tenant in found:
                line.refuse("has no filter (or *) after the key, or a key that was there before")
            found[tenant] = None if given[0].strip() == "*" else Filter.parse(given[0])
        if any(not (len(one) >= _SHORTEST_KEY and one.isascii() and one.isprintable()) for one in found):
            raise TourError(f"a key must have {_SHORTEST_KEY} characters or more, all of them ASCII.")
        if self.keys and not found:
            raise TourError(f"{self.keys} has no key.")
        if not found and not self.is_local:
            raise TourError(
                f"--host {self.host} lets other machines in: give a key with --keys or {KEY_VARIABLE}, "
                "or --no-key to let everybody in."
            )
        return {digest(one): passing for one, passing in found.items()} or None


Keys = Mapping[bytes, Filter | None]
"""Of the digest of each key, which documents it may find; None: all."""


def digest(key: str) -> bytes:
    """What a key is looked up by: the time that takes says nothing of the keys."""
    return sha256(key.encode("latin-1", "replace")).digest()


def listen(request: ServeRequest) -> socket.socket:
    """A socket that is bound to host and port, not yet listening."""
    try:
        family, *_, address = socket.getaddrinfo(request.host, request.port, type=socket.SOCK_STREAM)[0]
        # Without the protocol's number, asyncio leaves Nagle's algorithm on: each answer would take 40 ms longer.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise TourError(
            f"cannot listen on {request.host}, port {request.port}: {error.strerror}; choose another --port."
        ) from error
    return listener


def run_server(app: object, listener: socket.socket) -> None:
    """Serve an application until a signal (SIGINT, SIGTERM) asks for the end; what runs is finished first."""
    import uvicorn

    class Server(uvicorn.Server):
        """Ends with code 0 after a signal, and at once with code 1 after a second one."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in sockets or ():
                one.listen(2048)  # the backlog that uvicorn is given is also how many asyncio accepts at a time

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {number: signal.signal(number, self.end) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def end(self, *_: object) -> None:
            if self.should_exit:
                # What a search still waits for may never come. Labels are in the score cache after each call.
                os._exit(1)
            self.should_exit = True

    logging.raiseExceptions = False  # a log that cannot be written is no reason to fail
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # the library declares an ASGI application more narrowly
        http=_connection_class(),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_ACCEPTED,
        h11_max_incomplete_event_size=64 * 1024,
    )
    Server(config).run(sockets=[listener])


def _connection_class() -> type[asyncio.Protocol]:
    """Connections of which there are never too many, and which are closed if their clients send or read too slowly."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    most = CONNECTIONS
    if sys.platform != "win32":
        import resource

        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = CONNECTIONS if descriptors == resource.RLIM_INFINITY else min(CONNECTIONS, descriptors // 2)
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # those that wait for their clients, the longest first

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()
            if len(self.connections) > most:
                longest = next(iter(waiting))
                waiting.pop(longest).cancel()
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if timer := waiting.pop(self, None):
                timer.cancel()

        def _watch(self) -> None:
            """Begin to wait for a request, or for an answer to be read; or end that."""
            waits = self.cycle is None or self.cycle.response_complete or self.flow.write_paused
            if waits and self not in waiting:
                self._wait()
            elif not waits and self in waiting:
                waiting.pop(self).cancel()

        def _wait(self) -> None:
            waiting[self] = self.loop.call_later(PATIENCE, self._look, self.transport.get_write_buffer_size())

        def _look(self, unread: int) -> None:
            """Go on waiting for a client that reads, however slow; else close the connection."""
            if self.transport.get_write_buffer_size() < unread:
                self._wait()
            else:
                self.transport.abort()

    return Connection
