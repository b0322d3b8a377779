"""What a service is asked to do: a search request without topics, and how it is served."""

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.flags import option
from tour_pyserini.search_request import SearchRequest

KEY_VARIABLE = "TOUR_PYSERINI_SERVICE_KEY"
_SERVING, _LIMITS = "how it is served", "what a request may ask for"


def _hidden(default: Any = None) -> Any:
    """A field of a search request that a service has no flag for."""
    return field(default=default)


@dataclass(frozen=True, kw_only=True)
class ServeRequest(SearchRequest):
    """Serve searches of one index; the fields are the flags of `python -m tour_pyserini.serve`.

    Attributes:
        host: the address that it listens on. Another one than this machine's own needs a key.
        port: its port; 0: any that is free.
        at_once: searches that advance together.
        queue: searches that may wait for their turn; who comes then is sent away.
    """

    topics: str = option("", "`demo` serves the embedded collection", group="what is searched")
    topics_format: str = _hidden("default")
    qrels: str | None = _hidden()
    remove_query: bool = _hidden(False)
    output: str | None = _hidden()
    output_format: str = _hidden("trec")
    output_queries: str | None = _hidden()
    trace: str | None = _hidden()
    trace_vectors: bool = _hidden(False)
    hits: int = _hidden(1000)
    tag: str | None = _hidden()
    shard: str | None = _hidden()
    ray: str | None = _hidden()
    ray_workers: int | None = _hidden()
    batch_size: int = _hidden(64)
    encoded_queries: str | None = _hidden()
    predictions: str | None = _hidden()
    unit: str | None = _hidden()
    max_words: int | None = _hidden()
    context: str | None = _hidden()
    title: bool | None = _hidden()
    separator: str | None = _hidden()

    host: str = option("127.0.0.1", "address to listen on", group=_SERVING)
    port: int = option(8080, "port to listen on; 0: any that is free", group=_SERVING, metavar="N")
    key_file: str | None = option(
        None,
        f"file whose first line is the key that requests must have (or set {KEY_VARIABLE})",
        group=_SERVING,
        metavar="FILE",
    )
    no_key: bool = option(False, "let everybody in who reaches --host", group=_SERVING)
    at_once: int = option(16, "searches that advance together", group=_SERVING, count=True)
    queue: int = option(128, "searches that may wait; more are sent away with 429", group=_SERVING, count=True)
    no_mcp: bool = option(False, "do not serve the MCP tool at /mcp", group=_SERVING)
    most_bytes: int = option(1_000_000, "bytes of a request", group=_LIMITS, count=True)
    most_characters: int = option(2_000, "characters of a query", group=_LIMITS, count=True)
    most_queries: int = option(64, "queries of a request", group=_LIMITS, count=True)
    most_hits: int = option(1_000, "length of a list, and depth of a round", group=_LIMITS, count=True)
    most_labels: int = option(200, "labels of a query, or passages of a request to re-rank", group=_LIMITS, count=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port <= 65_535 or isinstance(self.port, bool):
            raise TourError(f"--port must be a number from 0 to 65535, not {self.port!r}.")
        if self.no_key and self.key_file:
            raise TourError("--key-file and --no-key contradict each other; give one of them.")

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
