"""What goes wrong, as an answer of one sentence: never a traceback, a path or a value of this machine."""

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.service.dispatcher import GoneError
from tour_pyserini.service.messages import Problem
from tour_pyserini.service.search_loop import BusyError, FailedError

log = logging.getLogger(__name__)

CLOSED = 499
"""The status of a request whose client has gone; nobody reads it."""

RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "The request cannot be read.",
        401: "The key is missing or wrong.",
        404: "There is no such thing.",
        413: "The request is too large.",
        422: "The request is wrong.",
        429: "There is no room for it now; the header Retry-After says when to come again.",
        500: "The service has failed.",
    }.items()
}


def sentence(error: Exception) -> str:
    """Why there is no answer, for whoever asked."""
    if isinstance(error, RequestError | BusyError):
        return str(error)
    return "the service has failed; its log says why."


def add_handlers(app: FastAPI) -> None:
    """Let every failure be a `Problem`."""

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        return _problem(422, sentence(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _problem(400 if _unreadable(error) else 422, _first(error.errors()))

    async def busy(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, BusyError)
        return _problem(429, f"{error}; come again later.", {"Retry-After": str(error.retry_after)})

    async def known(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def gone(_: Request, error: Exception) -> JSONResponse:
        return _problem(CLOSED, "the client has gone.")

    async def failed(_: Request, error: Exception) -> JSONResponse:
        return _problem(500, sentence(error))

    async def broken(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return _problem(500, sentence(error))

    handlers = {
        RequestError: wrong,
        TourError: broken,
        FailedError: failed,
        RequestValidationError: invalid,
        BusyError: busy,
        HTTPException: known,
        GoneError: gone,
        Exception: failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)


def _unreadable(error: RequestValidationError) -> bool:
    return any(item["type"] == "json_invalid" for item in error.errors())


def _first(errors: Sequence[Any]) -> str:
    """The first fault of a request: where it is and what; its value is not repeated."""
    where = ".".join(str(part) for part in errors[0]["loc"][1:]) or str(errors[0]["loc"][0])
    return f"{where}: {errors[0]['msg'][:300]}."
