"""The routes of searches: one answer, a stream of lists, and documents."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from tour_pyserini.errors import RequestError
from tour_pyserini.service.answers import title_and_text
from tour_pyserini.service.dispatcher import Dispatcher, Stream
from tour_pyserini.service.messages import Answer, Answers, Document, Message, Problem, Round, SearchBody
from tour_pyserini.service.problems import sentence

_EVENTS = (
    "Events `settings`, `round` for each list, and `answer` or `error`; their data are the messages Settings, Round, "
    "Answer and Problem."
)


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
        started = dispatcher.begin(body, request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(dispatcher, started), media_type="text/event-stream", headers=headers)

    @routes.get("/documents/{docid:path}")
    def document(docid: str) -> Document:
        """A document of the collection."""
        try:
            passage = dispatcher.collection.text(docid)
        except KeyError:
            raise HTTPException(404, f"there is no document {docid!r:.200} in {dispatcher.collection.name}.") from None
        title, text = title_and_text(passage)
        return Document(docid=docid, title=title, text=text, contents=str(passage))

    return routes


def _said(field: str) -> str | None:
    """What is said of the field of a body with the same meaning."""
    return SearchBody.model_fields[field].description


async def _events(dispatcher: Dispatcher, stream: Stream) -> AsyncIterator[bytes]:
    yield _event("settings", dispatcher.searches.answers.settings(stream.search))
    async for message in stream.messages():
        yield _event(*_named(message))


def _named(message: Any) -> tuple[str, Message]:
    if isinstance(message, Exception):
        return "error", Problem(detail=sentence(message))
    return ("round" if isinstance(message, Round) else "answer"), message


def _event(name: str, message: Message) -> bytes:
    return f"event: {name}\ndata: {message.model_dump_json()}\n\n".encode()  # JSON has no line breaks of its own


def _settings(words: list[str]) -> dict[str, bool | int | float | str]:
    settings: dict[str, bool | int | float | str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in settings:
            raise RequestError(f"the setting {word!r:.100} is not of the form NAME=VALUE, or is given twice.")
        settings[name] = value
    return settings
