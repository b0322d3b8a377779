"""The web application: all routes, what goes wrong, and what begins and ends with it."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

import tour_pyserini
from tour_pyserini.errors import RequestError
from tour_pyserini.evaluation.query_path import FILES
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.dispatcher import Dispatcher, sentence
from tour_pyserini.service.messages import Problem
from tour_pyserini.service.middleware import Guard
from tour_pyserini.service.routes import mcp_server, routes_of
from tour_pyserini.service.search_loop import BusyError
from tour_pyserini.service.serving import Keys

CLOSED = 499
"""The status of a request whose client has gone; nobody reads it."""
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        401: "The key is missing or wrong.",
        403: "The page of another site asks, or a key with a filter asks for what concerns all documents.",
        404: "There is no such thing.",
        405: "The route has other methods; they are in the header Allow.",
        408: "The body of the request came too slowly.",
        413: "The request is too large.",
        421: "The service answers to the names of its own machine only.",
        422: "The request is wrong, or no JSON.",
        429: "There is no room for it now; the header Retry-After says when to come again.",
        500: "The service has failed.",
    }.items()
}


def new_app(collection: Collection, *, keys: Keys | None = None) -> Any:
    """The service of a collection, as an ASGI application.

    Args:
        collection: what is served.
        keys: the keys of which requests must have one; None: everybody may ask.

    Raises:
        TourError: if the filter of a key does not fit the collection.
    """
    request, dispatcher = collection.request, Dispatcher(collection, keys)
    mcp = mcp_server(dispatcher)
    # Without sessions, of which somebody else could make use.
    options: dict[str, Any] = {"streamable_http_path": "/mcp", "host": request.host, "stateless_http": True}
    mcp_routes = mcp.streamable_http_app(**options).routes if mcp else ()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with mcp.session_manager.run() if mcp else contextlib.nullcontext():
            async with asyncio.TaskGroup() as tasks:
                _reload_on_sighup(dispatcher, tasks)
                yield
            # Requests that were accepted have their answers by now.
            await anyio.to_thread.run_sync(dispatcher.searches.close)

    app = FastAPI(
        title="tour_pyserini",
        version=tour_pyserini.__version__,
        description="Search that optimises queries at test time.",
        lifespan=lifespan,
        responses=RESPONSES,
        docs_url=None,  # its pages load scripts from another site
        redoc_url=None,
    )
    _add_handlers(app)
    for routes in routes_of(dispatcher):
        app.include_router(routes)
    app.router.routes.extend(mcp_routes)
    pages = {"/": FILES / "index.html", "/docs": FILES / "routes.html"}
    pages |= {f"/{file.name}": file for file in FILES.iterdir() if file.is_file()}
    for path, file in pages.items():
        app.add_route(path, partial(_send_file, file=file), include_in_schema=False)
    names = {path.split("/")[1] for path in (*app.openapi()["paths"], "/v2/rerank", "/mcp", "/docs", "/")}
    return Guard(app, dispatcher, routes=names, pages=pages.keys())


def _reload_on_sighup(dispatcher: Dispatcher, tasks: asyncio.TaskGroup) -> None:
    """Reload when the signal SIGHUP comes, as servers do."""

    async def reload() -> None:
        with contextlib.suppress(Exception):  # the log says what was wrong
            await dispatcher.reload()

    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread, or on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: tasks.create_task(reload()))


async def _send_file(_: Request, file: Path) -> Response:
    return FileResponse(file)


def _add_handlers(app: FastAPI) -> None:
    """Let every failure be a `Problem` of one sentence: never a traceback, a path or a value of this machine."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        match error:
            case StarletteHTTPException():  # FastAPI's 400 is a body that is no JSON in one of many ways
                status = 422 if error.status_code == 400 else error.status_code
                return JSONResponse({"detail": str(error.detail)}, status, error.headers)
            case ClientDisconnect():
                return JSONResponse(None, CLOSED)
            case BusyError():
                detail, headers = f"{error}; come again later.", {"Retry-After": str(error.retry_after)}
                return JSONResponse({"detail": detail}, 429, headers)
        status = 422 if isinstance(error, RequestError | RequestValidationError) else 500
        return JSONResponse({"detail": sentence(error)}, status)

    for kind in (RequestValidationError, StarletteHTTPException, RequestError, BusyError, Exception):
        app.add_exception_handler(kind, answer)
