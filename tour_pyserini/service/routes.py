"""The routes of searches, documents and re-ranking: the service's own, and those that clients of others know.

Re-ranking has the dialects of text-embeddings-inference and of Cohere, Jina and vLLM; searches are also where
Pyserini's own REST server has them.
"""

import math
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from tour_pyserini.errors import RequestError
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.dispatcher import Dispatcher, Stream, check_query, sentence
from tour_pyserini.service.jobs import title_and_text
from tour_pyserini.service.messages import (
    Answer,
    Answers,
    Document,
    DocumentScore,
    DocumentText,
    IndexStatus,
    Message,
    Problem,
    PyseriniCandidate,
    PyseriniHits,
    PyseriniSearch,
    RerankBody,
    Reranked,
    Round,
    SearchBody,
    TextScore,
)

_EVENTS = (
    "Events `settings`, `round` for each list, and `answer` or `error`; their data are the messages Settings, Round, "
    "Answer and Problem."
)
_FIXED = ("ef_search", "encoder", "query_generator", "instruction_config")


def search_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/search`, `/search/stream` and `/documents/{docid}`."""
    routes = APIRouter(tags=["search"])

    @routes.post("/search")
    async def search(body: SearchBody, request: Request) -> Answer | Answers:
        """Search with a query, or with a list of them; `deadline_ms` returns the best list that can be had in time."""
        answers = await dispatcher.search(body, request)
        return answers[0] if isinstance(body.query, str) else Answers(answers=answers)

    @routes.get(
        "/search/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": _EVENTS}},
    )
    async def stream(
        request: Request,
        query: Annotated[str, Query(description="the text of the query")],
        hits: Annotated[int, Query(ge=1, description="length of the list")] = 10,
        qid: Annotated[str, Query(max_length=200, description=_said("qid"))] = "",
        method: Annotated[str | None, Query(description=_said("method"))] = None,
        preset: Annotated[str | None, Query(description=_said("preset"))] = None,
        budget: Annotated[int | None, Query(ge=1, description=_said("budget"))] = None,
        deadline_ms: Annotated[float | None, Query(gt=0, allow_inf_nan=False, description=_said("deadline_ms"))] = None,
        setting: Annotated[list[str] | None, Query(description="NAME=VALUE of a setting; may be repeated")] = None,
    ) -> StreamingResponse:
        """Search with a query, and send every list as a server-sent event."""
        body = SearchBody(
            query=query,
            hits=hits,
            qid=qid,
            method=method,
            preset=preset,
            budget=budget,
            deadline_ms=deadline_ms,
            settings=_settings(setting or []),
        )
        return _EventStream(dispatcher, dispatcher.begin(body, request))

    @routes.get("/documents/{docid:path}")
    def document(docid: str) -> Document:
        """A document of the collection."""
        passage = _passage(dispatcher.collection, docid)
        title, text = title_and_text(passage)
        return Document(docid=docid, title=title, text=text, contents=str(passage))

    return routes


def rerank_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/rerank`, also as `/v1/rerank` and `/v2/rerank`, and `/info`, which tells what is behind it."""
    routes = APIRouter(tags=["re-rank"])
    limits, collection = dispatcher.limits, dispatcher.collection

    @routes.post("/rerank")
    @routes.post("/v1/rerank", include_in_schema=False)
    @routes.post("/v2/rerank", include_in_schema=False)
    async def rerank(body: RerankBody, request: Request) -> list[TextScore] | Reranked:
        """Score passages for a query, best first.

        With `texts`, the answer is that of text-embeddings-inference; with `documents`, that of Cohere, Jina and vLLM.
        Scores are probabilities, or raw logits with `raw_scores`. The model is the service's: `model` is not read.
        """
        passages = _passages(body)
        scores = np.array(await dispatcher.rerank(body.query, passages, request))
        order = np.argsort(-scores, kind="stable")[: body.top_n].tolist()
        shown = [float(score) if body.raw_scores else _probability(score) for score in scores]
        if body.texts is not None:
            return [TextScore(index=i, score=shown[i], text=passages[i] if body.return_text else None) for i in order]
        results = [
            DocumentScore(
                index=i,
                relevance_score=shown[i],
                document=DocumentText(text=passages[i]) if body.return_documents else None,
            )
            for i in order
        ]
        return Reranked(id=uuid.uuid4().hex, model=collection.reranker_name, results=results)

    @routes.get("/info")
    def info() -> dict[str, Any]:
        """Which re-ranker runs here, in the words of text-embeddings-inference."""
        inner = getattr(collection.reranker, "reranker", collection.reranker)
        description = getattr(inner, "description", None)
        return {
            "model_id": collection.reranker_name,
            "model_sha": getattr(collection.reranker, "fingerprint", None),
            "model_dtype": getattr(description, "dtype", None) or "float32",
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_input_length": getattr(description, "max_length", None) or limits.reranker_max_length,
            "max_client_batch_size": limits.most_labels,
        }

    return routes


def pyserini_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/v1/indexes/{index}/search`, `/documents/{docid}` and `/status`, for the one index that is served."""
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
    async def search(index: str, params: PyseriniSearch, request: Request) -> PyseriniHits:
        """Search with the service's own method."""
        check(index)
        for name in _FIXED:
            if getattr(params, name) is not None:
                raise RequestError(f"{name} is chosen when the service is started, not by a request; leave it out.")
        query = params.query if isinstance(params.query, str) else params.query.get("query_txt")
        if not isinstance(query, str):
            raise RequestError("the query is a text, or an object with the text as `query_txt`.")
        check_query(query, dispatcher.limits)  # a message cannot hold halves of characters
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
        return {"id": docid, "contents": str(_passage(collection, docid))}

    @routes.get("/{index}/status")
    def status(index: str) -> IndexStatus:
        """Whether the index is here, and how large it is."""
        check(index)
        return IndexStatus(downloaded=True, size_bytes=str(collection.bytes))

    return routes


class _EventStream(StreamingResponse):
    """The messages of a search as server-sent events; it is cancelled when its client goes away."""

    def __init__(self, dispatcher: Dispatcher, stream: Stream) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._events(), media_type="text/event-stream", headers=headers)
        self._dispatcher, self._stream = dispatcher, stream

    async def __call__(self, *request: Any) -> None:
        # Not in the generator: it may be that nobody ever asks for its first event.
        with self._dispatcher.watched([self._stream.search]):
            await super().__call__(*request)

    async def _events(self) -> AsyncIterator[bytes]:
        yield _event("settings", self._stream.search.settings_in(self._dispatcher.collection))
        async for message in self._stream.messages():
            if isinstance(message, Exception):
                yield _event("error", Problem(detail=sentence(message)))
            else:
                yield _event("round" if isinstance(message, Round) else "answer", message)


def _event(name: str, message: Message) -> bytes:
    return f"event: {name}\ndata: {message.model_dump_json()}\n\n".encode()  # JSON has no line breaks of its own


def _said(field: str) -> str | None:
    """What is said of the field of a body with the same meaning."""
    return SearchBody.model_fields[field].description


def _settings(words: list[str]) -> dict[str, bool | int | float | str]:
    settings: dict[str, bool | int | float | str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in settings:
            raise RequestError(f"the setting {word!r:.100} is not of the form NAME=VALUE, or is given twice.")
        settings[name] = value
    return settings


def _passage(collection: Collection, docid: str) -> str:
    try:
        return collection.text(docid)
    except KeyError:
        raise HTTPException(404, f"there is no document {docid!r:.200} in {collection.name}.") from None


def _passages(body: RerankBody) -> list[str]:
    if (body.texts is None) == (body.documents is None):
        raise RequestError("give either `texts` or `documents`: the passages to score.")
    given = body.texts if body.texts is not None else body.documents or []
    passages = [document.get("text") if isinstance(document, dict) else document for document in given]
    if not all(isinstance(passage, str) for passage in passages):
        raise RequestError("a document is a text, or an object with a field `text`.")
    return [str(passage) for passage in passages]


def _probability(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
