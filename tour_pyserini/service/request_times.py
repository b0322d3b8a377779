"""When a request came, and when its answer was sent: deadlines are from the one to the other."""

import time
from collections.abc import Callable, Sequence

from fastapi import Request

from tour_pyserini.service.guard import App, Receive, Scope, Send
from tour_pyserini.service.jobs import Job

_ARRIVED, _ANSWERED = "tour_pyserini.arrived", "tour_pyserini.answered"


class RequestTimes:
    """An application that notes when each request comes, before anything reads it.

    Args:
        app: the application.
        sent: told when the answer has been sent that is made of these tasks.
    """

    def __init__(self, app: App, sent: Callable[[Sequence[Job]], None]) -> None:
        self._app, self._sent = app, sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope[_ARRIVED] = time.monotonic()
        await self._app(scope, receive, send)
        if scope.get(_ANSWERED):
            self._sent(scope[_ANSWERED])


def arrival(request: Request | None) -> float:
    """When a request came, by the clock `time.monotonic`; one that did not come by this way comes now."""
    return request.scope.get(_ARRIVED, time.monotonic()) if request else time.monotonic()


def note_answered(request: Request, tasks: Sequence[Job]) -> None:
    """Tell that these tasks are what the answer to the request is made of."""
    request.scope[_ANSWERED] = tasks
