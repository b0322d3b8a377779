"""Serving: from a request to a running service."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator

from tour_pyserini.errors import TourError
from tour_pyserini.service.serve_request import ServeRequest
from tour_pyserini.support.packages import import_optional

CONNECTIONS = 1000
"""Most connections; more get status 503."""


def serve(request: ServeRequest, *, tell: Callable[[str], None] = lambda _: None) -> None:
    """Serve searches until a signal (SIGINT, SIGTERM) asks for the end; what runs is finished first.

    Args:
        request: what is served, and how.
        tell: called with the address once the service is ready.

    Raises:
        TourError: if something is missing or wrong, or the port is in use.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        import_optional(module, extra="serve")
    if not request.no_mcp:
        import_optional("mcp.server.mcpserver", extra="mcp")
    from tour_pyserini.service.app import new_app
    from tour_pyserini.service.collection import Collection
    from tour_pyserini.service.middleware import read_key

    key = read_key(request)
    with contextlib.closing(listen(request)) as listener:  # a port in use is reported before models are loaded
        app = new_app(Collection(request), key=key)
        listener.listen(2048)
        tell(f"http://{_shown(request.host)}:{listener.getsockname()[1]}")
        _run(app, listener)


def _run(app: object, listener: socket.socket) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        """Ends with code 0 after a signal, and at once with code 1 after a second one."""

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

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # the library declares an ASGI application more narrowly
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
    )
    Server(config).run(sockets=[listener])


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


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
