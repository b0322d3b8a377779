"""From the body of a request to a search: settings by name, within the limits of the service."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import RequestError, TourError
from tour_pyserini.service.messages import SearchBody
from tour_pyserini.service.serve_request import ServeRequest

MOST_UPDATES = 100
LONGEST_DEADLINE = 600_000.0
"""Milliseconds."""
MOST_LINES = 50_000
"""Lines of all lists of a request whose rounds are told, about a kilobyte each."""


@contextlib.contextmanager
def blaming_request() -> Iterator[None]:
    """Where whatever is wrong was given by a request."""
    try:
        yield
    except TourError as error:
        raise RequestError(error) from error


def chosen_config(body: SearchBody, default: TourConfig, limits: ServeRequest) -> TourConfig:
    """The settings of a request, over those of the service.

    Raises:
        RequestError: if a setting is unknown or wrong, or asks for more than the service allows.
    """
    for name in ("method", "preset"):
        if name in body.settings:
            raise RequestError(f"{name!r} is not a setting; give it beside `settings`.")
    changes: Mapping[str, Any] = {
        **body.settings,
        **({} if body.method is None else {"method": body.method}),
        **({} if body.budget is None else {"budget": body.budget}),
    }
    with blaming_request():
        config = default if body.preset is None else TourConfig.preset(body.preset)
        config = config.replace(**changes) if changes else config
    allowed = {
        "hits": (body.hits, limits.most_hits),
        "depth": (config.values().get("depth", 0), limits.most_hits),
        "budget, or depth times rounds,": (config.most_labels, limits.most_labels),
        "number of updates": (config.values().get("iterations", 0), MOST_UPDATES),
        "deadline_ms": (body.deadline_ms or 0, LONGEST_DEADLINE),
    }
    for name, (value, most) in allowed.items():
        if value > most:
            raise RequestError(f"the {name} is {value!s:.40}, and this service allows {most:g} at most.")
    return config


def checked_queries(body: SearchBody, limits: ServeRequest) -> list[str]:
    """The queries of a request.

    Raises:
        RequestError: if there is none, one is empty or too long, or there are too many.
    """
    queries = [body.query] if isinstance(body.query, str) else list(body.query)
    most = min(limits.most_queries, limits.queue + limits.at_once)  # for more there is never room
    if not 1 <= len(queries) <= most:
        raise RequestError(f"a request has 1 to {most} queries, not {len(queries)}.")
    for query in queries:
        check_query(query, limits)
    return queries


def check_lines(queries: int, hits: int, config: TourConfig) -> None:
    """Refuse lists of all rounds that would take too much memory."""
    rounds = config.values().get("iterations") or -(-config.most_labels // config.values().get("depth", 1))
    if (lines := queries * hits * (rounds + 1)) > MOST_LINES:
        raise RequestError(
            f"the rounds of {queries} queries with {hits} hits may have {lines} lines, and this service tells "
            f"{MOST_LINES} at most; ask for fewer hits or queries, or without rounds."
        )


def check_query(query: str, limits: ServeRequest) -> None:
    """Refuse a query that is empty, too long or no text."""
    check_characters(query, "the query")
    if not query.strip():
        raise RequestError("the query is empty; give it a text.")
    if len(query) > limits.most_characters:
        raise RequestError(
            f"the query has {len(query)} characters; this service allows {limits.most_characters} at most."
        )


def check_characters(text: str, what: str) -> None:
    """Refuse what JSON can hold and no model reads: halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{what} has half of a surrogate pair, which is no character; send it as UTF-8.") from None
