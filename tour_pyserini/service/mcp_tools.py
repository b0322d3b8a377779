"""The service as tools for language models, by the Model Context Protocol at `/mcp`."""

import logging
from typing import Annotated, Any

from pydantic import BaseModel, Field

from tour_pyserini.errors import RequestError
from tour_pyserini.service.dispatcher import Dispatcher, sentence
from tour_pyserini.service.jobs import title_and_text
from tour_pyserini.service.messages import SearchBody
from tour_pyserini.service.search_loop import BusyError, FailedError
from tour_pyserini.support.packages import import_optional

log = logging.getLogger(__name__)


class FoundPassage(BaseModel):
    """One passage that was found."""

    docid: str
    score: float
    title: str
    text: str


class FoundPassages(BaseModel):
    """What the tool `search` gives: the passages, best first, why it stopped and what it cost."""

    passages: list[FoundPassage]
    stop: str
    labels: int
    milliseconds: float


def mcp_server(dispatcher: Dispatcher) -> Any:
    """An MCP server with the tools `search` and `get_document`."""
    server_module = import_optional("mcp.server.mcpserver", extra="mcp")
    exceptions = import_optional("mcp.server.mcpserver.exceptions", extra="mcp")
    collection, limits = dispatcher.collection, dispatcher.limits
    server = server_module.MCPServer(
        "tour_pyserini",
        instructions=f"Search the collection {collection.name}: {collection.size} passages.",
        log_level="WARNING",
    )

    @server.tool()  # type: ignore[untyped-decorator]
    async def search(
        query: Annotated[str, Field(description="what to look for, as a question or in words")],
        k: Annotated[int, Field(ge=1, le=limits.most_hits, description="how many passages")] = 10,
        deadline_ms: Annotated[
            float | None, Field(gt=0, description="milliseconds in which the answer must be there")
        ] = None,
    ) -> FoundPassages:
        """Search the collection for passages that answer a query; the best come first."""
        passages = []
        try:
            (answer,) = await dispatcher.search(SearchBody(query=query, hits=k, deadline_ms=deadline_ms))
            for hit in answer.candidates:
                title, text = title_and_text(collection.text(hit.docid))
                passages.append(FoundPassage(docid=hit.docid, score=hit.score, title=title, text=text))
        except Exception as error:
            raise exceptions.ToolError(_told(error)) from None
        costs = answer.costs
        return FoundPassages(passages=passages, stop=answer.stop, labels=costs.labels, milliseconds=costs.milliseconds)

    @server.tool()  # type: ignore[untyped-decorator]
    async def get_document(docid: str) -> str:
        """The whole text of a passage by its docid."""
        try:
            return str(collection.text(docid))
        except KeyError:
            raise exceptions.ToolError(f"there is no document {docid!r:.200} in {collection.name}.") from None
        except Exception as error:
            raise exceptions.ToolError(_told(error)) from None

    return server


def _told(error: Exception) -> str:
    """Why there is no answer; the reason goes to the log where it is not for whoever asked."""
    if not isinstance(error, RequestError | BusyError | FailedError):  # the last one is in the log already
        log.error("a tool failed", exc_info=error)
    return sentence(error)
