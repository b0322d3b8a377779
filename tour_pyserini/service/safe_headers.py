"""Headers of all answers: what a browser must not do with them."""

from collections.abc import MutableMapping
from typing import Any

from tour_pyserini.service.guard import App, Receive, Scope, Send

HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'"),  # pages have a policy of their own for scripts and styles
    (b"x-content-type-options", b"nosniff"),
)


class SafeHeaders:
    """An application whose answers no other site may show in a frame, and no browser takes for another type.

    Args:
        app: the application.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)
