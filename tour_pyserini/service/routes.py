"""The routes: the service's own, and those that clients of others know.

Re-ranking has the dialects of text-embeddings-inference and of Cohere, Jina and vLLM; searches are also where
Pyserini's own REST servers have them, and tools of the Model Context Protocol.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
from fastapi import APIRouter, BackgroundTasks, HTTPException, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field
from scipy.special import expit

from tour_pyserini.core.method import METHODS
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.service.dispatcher import ALLOWED, Dispatcher, sentence
from tour_pyserini.service.messages import (
    About,
    Answer,
    Choice,
    Document,
    Judgement,
    Problem,
    PyseriniSearch,
    QueryText,
    RerankBody,
    SearchBody,
    StreamQuery,
)
from tour_pyserini.stores.filters import Filter

_EXAMPLES = 5
"""Queries that the page offers."""
_GROUPS = {"tour": "the default", "baselines": "baselines", "paper": "the paper's", "": "of plugins"}
"""Groups of methods, in their order, by the module that has them."""
_EVENTS = (
    "Events `settings`, `round` for each list, and `answer` or `error`; their data are the messages Settings, Round, "
    "Answer and Problem."
)


def routes_of(dispatcher: Dispatcher) -> list[APIRouter]:
    """All routes but that of the tools."""
    return [
        make(dispatcher)
        for make in (_search_routes, _judgement_routes, _rerank_routes, _pyserini_routes, _state_routes)
    ]


def _search_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/search`, `/search/stream` and `/documents/{docid}`."""
    routes = APIRouter(tags=["search"])

    @routes.post("/search")
    async def search(body: SearchBody, request: Request, after: BackgroundTasks) -> Answer:
        """Search with a query; `deadline_ms` returns the best list that can be had in time."""
        return await dispatcher.search(body, _allowed_by(request), request, after)

    @routes.get(
        "/search/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": _EVENTS}},
    )
    async def stream(request: Request, asked: Annotated[StreamQuery, Query()]) -> StreamingResponse:
        """Search with a query, and send every list as a server-sent event."""
        _check_site(request)
        if len({word.partition("=")[0] for word in asked.setting}) < len(asked.setting):
            raise RequestError("a setting is given twice.")
        return dispatcher.stream(asked.body(), _allowed_by(request), request)

    @routes.get("/documents/{docid:path}")
    def document(docid: str, request: Request) -> Document:
        """A document of the collection."""
        passage = _passage(dispatcher, docid, _allowed_by(request))
        title, text = passage.parts
        return Document(docid=docid, title=title, text=text, contents=str(passage))

    return routes


def _judgement_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/judgements`: what people judged, and another judgement."""
    kept = dispatcher.collection.judgements
    routes = APIRouter(tags=["judgements"], include_in_schema=kept is not None)
    if kept is None:
        return routes
    texts: dict[str, Any] = {"response_class": PlainTextResponse}

    def found_by(request: Request) -> Callable[[str], bool] | None:
        """Which documents the key of a request may find; None: all, also those that are there no more."""
        allowed = _allowed_by(request)
        return None if allowed is None else lambda docid: dispatcher.collection.finds(docid, allowed)

    @routes.get("/judgements", **texts)
    def judgements(request: Request) -> str:
        """All judgements as qrels, `qid 0 docid grade`; of a query and a document, the last one."""
        return kept.qrels(found_by(request))

    @routes.get("/judgements/topics", **texts)
    def topics(request: Request) -> str:
        """The judged queries as topics, `qid<TAB>query`."""
        return kept.topics(found_by(request))

    @routes.post("/judgements")
    def judge(body: Judgement, request: Request) -> Judgement:
        """Keep a judgement of a document for a query; it is on the disk when the answer comes."""
        _check_site(request)
        _passage(dispatcher, body.docid, _allowed_by(request))
        kept.add(body.query, body.docid, body.relevance)
        return body

    @routes.api_route("/judgements", methods=["DELETE", "OPTIONS", "PATCH", "PUT", "TRACE"], include_in_schema=False)
    def refuse() -> None:
        raise HTTPException(405, headers={"Allow": "GET, POST"})  # Starlette names those of the first route only

    return routes


def _rerank_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/rerank`, also as `/v1/rerank` and `/v2/rerank`, and `/info`, which tells what is behind it."""
    routes = APIRouter(tags=["re-rank"])
    limits, collection = dispatcher.limits, dispatcher.collection

    @routes.post("/rerank")
    @routes.post("/v1/rerank", include_in_schema=False)
    @routes.post("/v2/rerank", include_in_schema=False)
    async def rerank(body: RerankBody, request: Request) -> list[dict[str, Any]] | dict[str, Any]:
        """Score passages for a query, best first.

        With `texts`, the answer is that of text-embeddings-inference; with `documents`, that of Cohere, Jina and vLLM.
        Scores are probabilities, or raw logits with `raw_scores`. The model is the service's: `model` is not read. With
        `budget` or first-stage `scores`, the service's method ranks the list, and scores are its own.
        """
        passages, is_tei = body.passages, bool(body.texts)
        if body.budget is not None or body.scores is not None:
            order = [(one.position, one.score) for one in await dispatcher.rank(body, request)]
        else:
            scores = np.array(await dispatcher.rerank(body.query, passages, request))
            shown = scores if body.raw_scores else expit(scores)
            order = [(i, float(shown[i])) for i in np.argsort(-scores, kind="stable").tolist()]
        results: list[dict[str, Any]] = []
        for i, score in order[: body.top_n]:
            results.append({"index": i, "score" if is_tei else "relevance_score": score})
            if body.return_text and is_tei:
                results[-1]["text"] = passages[i]
            elif body.return_documents and not is_tei:
                results[-1]["document"] = {"text": passages[i]}
        return results if is_tei else {"id": uuid.uuid4().hex, "model": collection.reranker_name, "results": results}

    @routes.get("/info")
    def info() -> dict[str, Any]:
        """Which re-ranker runs here, in the words of text-embeddings-inference."""
        return {
            "model_id": collection.reranker_name,
            "model_sha": getattr(collection.reranker, "fingerprint", None),
            "model_dtype": "float32" if limits.dtype == "auto" else limits.dtype,
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_input_length": limits.reranker_max_length,
            "max_client_batch_size": limits.most_labels,
        }

    return routes


def _pyserini_routes(dispatcher: Dispatcher) -> APIRouter:
    """The routes of Pyserini's REST servers, for the one index that is served.

    Of 2.x: `/v1/{index}/search` and `/doc/{docid}`; of 1.x: `/v1/indexes/`, and below it `/{index}/search`,
    `/documents/{docid}` and `/status`. Searches are by the service's own method.
    """
    routes = APIRouter(prefix="/v1", tags=["Pyserini"])
    collection = dispatcher.collection

    def check(index: str) -> None:
        if index != collection.name:
            raise HTTPException(404, f"this service has the index {collection.name} only.")

    def contents(index: str, docid: str, request: Request) -> dict[str, str]:
        check(index)
        return {"id": docid, "contents": _passage(dispatcher, docid, _allowed_by(request))}

    @routes.get("/{index}/search")
    async def search(
        index: str, query: QueryText, request: Request, after: BackgroundTasks, hits: Annotated[int, Query(ge=1)] = 10
    ) -> dict[str, Any]:
        """Search, as with Pyserini 2."""
        check(index)
        _check_site(request)
        answer = await dispatcher.search(SearchBody(query=query, hits=hits), _allowed_by(request), request, after)
        candidates = [
            {"docid": hit.docid, "score": hit.score, "rank": rank, "doc": {"id": hit.docid, "contents": hit.text}}
            for rank, hit in enumerate(answer.candidates, start=1)
        ]
        return {"api": "v1", "index": index, "query": {"text": query}, "candidates": candidates}

    @routes.get("/{index}/doc/{docid:path}")
    def document(index: str, docid: str, request: Request) -> dict[str, Any]:
        """A document of the collection, as with Pyserini 2."""
        return {"api": "v1", "index": index, "docid": docid, "doc": contents(index, docid, request)}

    @routes.get("/indexes/")
    def indexes(index_type: str = "faiss") -> list[str]:
        """The name of the index, as with Pyserini 1."""
        return [collection.name] if index_type == "faiss" else []

    @routes.post("/indexes/{index}/search")
    async def search_1(index: str, body: PyseriniSearch, request: Request, after: BackgroundTasks) -> dict[str, Any]:
        """Search, as with Pyserini 1."""
        check(index)
        query = body.query if isinstance(body.query, str) else body.query.query_txt
        asked = SearchBody(query=query, hits=body.hits, qid=body.qid)
        answer = await dispatcher.search(asked, _allowed_by(request), request, after)
        candidates = [{"docid": hit.docid, "score": hit.score, "document_txt": hit.text} for hit in answer.candidates]
        return {"query": {"qid": body.qid, "query_txt": query}, "candidates": candidates}

    @routes.get("/indexes/{index}/documents/{docid:path}")
    def document_1(index: str, docid: str, request: Request) -> dict[str, str]:
        """A document of the collection, as with Pyserini 1."""
        return contents(index, docid, request)

    @routes.get("/indexes/{index}/status")
    def status(index: str, request: Request) -> dict[str, Any]:
        """Whether the index is here, and how large it is."""
        check(index)
        _only_unfiltered(request)
        files = Path(collection.request.index or "").glob("**/*")
        return {"downloaded": True, "size_bytes": str(sum(file.stat().st_size for file in files if file.is_file()))}

    return routes


def _state_routes(dispatcher: Dispatcher) -> APIRouter:
    """What the service says of itself."""
    routes = APIRouter(tags=["state"])
    limits, choices = dispatcher.limits, _choices()

    @routes.get("/about")
    def about(request: Request) -> About:
        """What a search can choose from."""
        collection, allowed = dispatcher.collection, _allowed_by(request)
        return About(
            method=limits.config.method,
            choices=choices,
            documents=collection.size_of(allowed),
            judgements=collection.judgements is not None,
            most_hits=limits.most_hits,
            most_labels=limits.most_labels,
            examples=collection.examples(_EXAMPLES, allowed),
        )

    @routes.post("/reload")
    async def reload(request: Request) -> dict[str, int]:
        """Open the index and its passages again, when they were changed; no search is lost or disturbed."""
        _check_site(request)
        _only_unfiltered(request)
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
        _only_unfiltered(request)
        return Response(dispatcher.figures(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _choices() -> list[Choice]:
    """What the page can search with, by group; a line is the first of the method's docstring."""
    mixed = "Re-ranks by label and similarity, both standardised within the query: the baseline to beat."
    found = [Choice(value="preset:mixed", name="mixed", group="baselines", about=mixed)]
    for name, each in METHODS.items():
        group = _GROUPS.get(each.run.__module__.rpartition(".")[2], _GROUPS[""])
        line = (each.run.__doc__ or "").strip().partition("\n")[0]
        found.append(Choice(value=name, name=name, group=group, about=line))
    return sorted(found, key=lambda choice: list(_GROUPS.values()).index(choice.group))


def mcp_server(dispatcher: Dispatcher) -> Any:
    """The service as tools for language models: an MCP server; None where the package mcp is missing, or older than 2.

    Its tools are `search` and `get_document`.
    """
    try:
        from mcp.server import mcpserver
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        return None
    context_type: Any = mcpserver.Context
    collection = dispatcher.collection
    server = mcpserver.MCPServer(
        "tour_pyserini",
        instructions=f"Search the collection {collection.name}.",
        log_level="WARNING",
    )

    @contextlib.contextmanager
    def answered() -> Iterator[None]:
        try:
            yield
        except HTTPException as missing:
            raise ToolError(missing.detail) from None
        except Exception as error:
            raise ToolError(sentence(error)) from None

    @server.tool()
    async def search(
        context: context_type,
        query: Annotated[str, Field(description="what to look for, as a question or in words")],
        k: Annotated[int, Field(ge=1, le=dispatcher.limits.most_hits, description="how many passages")] = 10,
        deadline_ms: Annotated[
            float | None, Field(gt=0, description="milliseconds in which the answer must be there")
        ] = None,
    ) -> dict[str, Any]:
        """Search the collection for passages that answer a query; the best come first."""
        with answered():
            body = SearchBody(query=query, hits=k, deadline_ms=deadline_ms)
            answer = await dispatcher.search(body, _allowed_by(context.request_context.request))
        return answer.model_dump(
            include={
                "candidates": {"__all__": {"docid", "score", "relevance", "text"}},
                "costs": {"labels", "milliseconds"},
                "stop": True,
                "nothing": True,
            }
        )

    @server.tool()
    async def get_document(context: context_type, docid: str) -> str:
        """The whole text of a passage by its docid."""
        with answered():
            return _passage(dispatcher, docid, _allowed_by(context.request_context.request))

    return server


def _allowed_by(request: Request) -> Filter | None:
    """Which documents the key of a request may find; None: all."""
    allowed: Filter | None = request.scope[ALLOWED]
    return allowed


def _check_site(request: Request) -> None:
    """Refuse what the page of another site asks: browsers send such requests, and labels would be spent."""
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or request.headers.get("sec-fetch-site") == "cross-site":
        raise HTTPException(403, "pages of other sites may not search or judge here.")


def _only_unfiltered(request: Request) -> None:
    """Refuse a key with a filter where an answer is about all documents, or all who search."""
    if _allowed_by(request) is not None:
        raise HTTPException(403, "this key is for some documents, and the route is about all of them.")


def _passage(dispatcher: Dispatcher, docid: str, allowed: Filter | None) -> Passage:
    try:
        if not dispatcher.collection.finds(docid, allowed):
            raise KeyError(docid)
        return dispatcher.collection.text(docid)
    except KeyError:
        raise HTTPException(404, f"there is no document {docid!r:.200} in {dispatcher.collection.name}.") from None
