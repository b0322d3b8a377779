"""The routes of Pyserini's own REST server, for the one index that is served: its clients work here too."""

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from tour_pyserini.errors import RequestError
from tour_pyserini.service.dispatcher import Dispatcher
from tour_pyserini.service.messages import QueryInfo, SearchBody
from tour_pyserini.service.request_limits import check_query

_FIXED = ("ef_search", "encoder", "query_generator", "instruction_config")


class SearchParams(BaseModel):
    """What Pyserini's clients send."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "which railway climbs to the summit", "hits": 3}]}
    )

    query: str | dict[str, Any]
    hits: int = Field(default=10, ge=1)
    qid: str = Field(default="", max_length=200)
    ef_search: int | None = None
    encoder: str | None = None
    query_generator: str | None = None
    instruction_config: str | None = None


class PyseriniCandidate(BaseModel):
    """One line of a list, with Pyserini's fields."""

    docid: str
    score: float
    document_txt: str
    document_img_path: str | None = None
    encoded_img: str | None = None


class PyseriniHits(BaseModel):
    """What Pyserini's clients expect."""

    query: QueryInfo
    candidates: list[PyseriniCandidate]


class IndexStatus(BaseModel):
    """Whether the index is here, and the bytes of its folder."""

    downloaded: bool
    size_bytes: str


def pyserini_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/v1/indexes/{index}/search`, `/documents/{docid}` and `/status`."""
    routes = APIRouter(prefix="/v1/indexes", tags=["Pyserini"])
    collection = dispatcher.collection

    def check(index: str) -> None:
        if index != collection.name:
            raise HTTPException(404, f"this service has the index {collection.name} only.")

    @routes.get("/")
    def indexes(index_type: str = "faiss") -> list[str]:
        """The name of the index."""
        return [collection.name] if index_type == "faiss" else []

    @routes.post("/{index}/search")
    async def search(index: str, params: SearchParams, request: Request) -> PyseriniHits:
        """Search with the service's own method."""
        check(index)
        for name in _FIXED:
            if getattr(params, name) is not None:
                raise RequestError(f"{name} is chosen when the service is started, not by a request; leave it out.")
        query = params.query if isinstance(params.query, str) else params.query.get("query_txt")
        if not isinstance(query, str):
            raise RequestError("the query is a text, or an object with the text as `query_txt`.")
        check_query(query, collection.request)
        (answer,) = await dispatcher.search(SearchBody(query=query, hits=params.hits, qid=params.qid), request)
        candidates = [
            PyseriniCandidate(docid=hit.docid, score=hit.score, document_txt=hit.document_txt or "")
            for hit in answer.candidates
        ]
        return PyseriniHits(query=answer.query, candidates=candidates)

    @routes.get("/{index}/documents/{docid:path}")
    def document(index: str, docid: str) -> dict[str, str]:
        """A document of the collection."""
        check(index)
        try:
            return {"id": docid, "contents": str(collection.text(docid))}
        except KeyError:
            raise HTTPException(404, f"there is no document {docid!r:.200} in {index}.") from None

    @routes.get("/{index}/status")
    def status(index: str) -> IndexStatus:
        """Whether the index is here, and how large it is."""
        check(index)
        return IndexStatus(downloaded=True, size_bytes=str(collection.bytes))

    return routes
