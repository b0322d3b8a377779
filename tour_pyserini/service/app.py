"""The web application: all routes, what goes wrong, and what begins and ends with it."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

import tour_pyserini
from tour_pyserini.core.method import METHODS
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.evaluation.query_path import FILES
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.dispatcher import Dispatcher, allowed_by, sentence
from tour_pyserini.service.messages import About, Choice, Problem
from tour_pyserini.service.middleware import Guard
from tour_pyserini.service.routes import check_site, mcp_server, only_unfiltered, routes_of
from tour_pyserini.service.search_loop import BusyError
from tour_pyserini.service.serving import Keys

EXAMPLES = 5
"""Queries that the page offers."""
GROUPS = {"tour": "the default", "baselines": "baselines", "paper": "the paper's", "": "of plugins"}
"""Groups of methods, in their order, by the module that has them."""
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
    for routes in (*routes_of(dispatcher), _state_routes(dispatcher)):
        app.include_router(routes)
    app.router.routes.extend(mcp_routes)
    pages = {"/": FILES / "index.html", "/docs": FILES / "routes.html"}
    pages |= {f"/{file.name}": file for file in FILES.iterdir() if file.is_file()}
    for path, file in pages.items():
        app.add_route(path, partial(_send_file, file=file), include_in_schema=False)
    names = {path.split("/")[1] for path in (*app.openapi()["paths"], "/v2/rerank", "/mcp", "/docs", "/")}
    return Guard(app, dispatcher, routes=names, pages=pages.keys())


async def _send_file(_: Request, file: Path) -> Response:
    return FileResponse(file)


def _state_routes(dispatcher: Dispatcher) -> APIRouter:
    """What the service says of itself."""
    routes = APIRouter(tags=["state"])
    limits, choices = dispatcher.limits, _choices()

    @routes.get("/about")
    def about(request: Request) -> About:
        """What a search can choose from."""
        collection, allowed = dispatcher.collection, allowed_by(request)
        return About(
            method=limits.config.method,
            choices=choices,
            documents=collection.size_of(allowed),
            judgements=collection.judgements is not None,
            most_hits=limits.most_hits,
            most_labels=limits.most_labels,
            examples=collection.examples(EXAMPLES, allowed),
        )

    @routes.post("/reload")
    async def reload(request: Request) -> dict[str, int]:
        """Open the index and its passages again, when they were changed; no search is lost or disturbed."""
        check_site(request)
        only_unfiltered(request)
        try:
            return {"documents": (await dispatcher.reload()).size}
        except TourError:
            raise HTTPException(
                503, "it cannot be opened again, the log says why; what was served before is."
            ) from None

    @routes.get("/health")
    def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @routes.get("/ready", responses={503: {"model": Problem, "description": "The queue is full."}})
    def ready() -> dict[str, str]:
        """Whether a search would be taken in now. The models are loaded before the port opens."""
        if dispatcher.searches.room < 1:
            raise HTTPException(503, "the queue is full.")
        return {"status": "ready"}

    @routes.get("/metrics", response_class=PlainTextResponse)
    def figures(request: Request) -> Response:
        """What the service has done, for Prometheus."""
        only_unfiltered(request)
        return Response(dispatcher.figures(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _choices() -> list[Choice]:
    """What the page can search with, by group; a line is the first of the method's docstring."""
    mixed = "Re-ranks by label and similarity, both standardised within the query: the baseline to beat."
    found = [Choice(value="preset:mixed", name="mixed", group="baselines", about=mixed)]
    for name, each in METHODS.items():
        group = GROUPS.get(each.run.__module__.rpartition(".")[2], GROUPS[""])
        line = (each.run.__doc__ or "").strip().partition("\n")[0]
        found.append(Choice(value=name, name=name, group=group, about=line))
    return sorted(found, key=lambda choice: list(GROUPS.values()).index(choice.group))


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
