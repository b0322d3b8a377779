"""The web application: all routes, their guard, and what begins and ends with it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, HTTPException, Response
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST

import tour_pyserini
from tour_pyserini.evaluation.path_page import FILES
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.dispatcher import Dispatcher
from tour_pyserini.service.guard import Guard, local_names
from tour_pyserini.service.label_thread import LabelThread
from tour_pyserini.service.mcp_tools import mcp_server
from tour_pyserini.service.messages import Problem
from tour_pyserini.service.metrics import Counted, Metrics
from tour_pyserini.service.page_routes import page_routes
from tour_pyserini.service.problems import RESPONSES, add_handlers
from tour_pyserini.service.pyserini_routes import pyserini_routes
from tour_pyserini.service.request_times import RequestTimes
from tour_pyserini.service.rerank_routes import rerank_routes
from tour_pyserini.service.safe_headers import SafeHeaders
from tour_pyserini.service.search_loop import SearchLoop
from tour_pyserini.service.search_routes import search_routes
from tour_pyserini.support.hardware import cores

ROUTES = ("", "search", "rerank", "documents", "v1", "v2", "mcp", "info", "health", "ready", "metrics", "about", "docs")
"""First parts of the paths that are counted by name."""


def new_app(collection: Collection, *, key: str | None = None) -> Any:
    """The service of a collection, as an ASGI application.

    Args:
        collection: what is served.
        key: the key that requests must have; None: everybody may ask.
    """
    request = collection.request
    labels = LabelThread(collection.reranker, collection.label_cost(), least=request.reranker_threads or cores())
    searches = SearchLoop(collection, labels, at_once=request.at_once, queue=request.queue)
    metrics = Metrics(searches)
    dispatcher = Dispatcher(searches, metrics)
    mcp = None if request.no_mcp else mcp_server(dispatcher)
    mcp_routes = mcp.streamable_http_app(streamable_http_path="/mcp", host=request.host).routes if mcp else ()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if mcp is not None:
                await stack.enter_async_context(mcp.session_manager.run())
            yield
            # Requests that were accepted have their answers by now; what is left is work that nobody waits for.
            await anyio.to_thread.run_sync(searches.close)
            await anyio.to_thread.run_sync(labels.close)

    app = FastAPI(
        title="tour_pyserini",
        version=tour_pyserini.__version__,
        description="Search that optimises queries at test time.",
        lifespan=lifespan,
        responses=RESPONSES,
        docs_url=None,  # its pages load scripts from another site
        redoc_url=None,
    )
    add_handlers(app)

    for new_routes in (search_routes, rerank_routes, pyserini_routes, page_routes):
        app.include_router(new_routes(dispatcher))
    app.include_router(_state_routes(searches, metrics))
    app.router.routes.extend(mcp_routes)

    @app.get("/docs", include_in_schema=False)
    def routes_page() -> FileResponse:
        return FileResponse(FILES / "routes.html")

    app.mount("/", StaticFiles(directory=FILES, html=True), name="page")
    guard = Guard(app, key=key, most_bytes=request.most_bytes, names=local_names(request), is_page=_is_page)
    return RequestTimes(SafeHeaders(Counted(guard, metrics, routes=ROUTES)), dispatcher.sent)


def _state_routes(searches: SearchLoop, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["state"])

    @routes.get("/health")
    def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @routes.get("/ready", responses={503: {"model": Problem, "description": "The queue is full."}})
    def ready() -> dict[str, str]:
        """Whether a search would be taken in now. The models are loaded before the port opens."""
        if searches.is_full:
            raise HTTPException(503, "the queue is full.")
        return {"status": "ready"}

    @routes.get("/metrics", response_class=PlainTextResponse)
    def figures() -> Response:
        """What the service has done, for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _is_page(path: str) -> bool:
    """Whether a path is a file of the pages."""
    if path in ("/", "/docs"):
        return True
    try:
        file = (FILES / path.lstrip("/")).resolve()
        return file.is_relative_to(FILES) and file.is_file()
    except (OSError, ValueError):  # no file can have such a name
        return False
