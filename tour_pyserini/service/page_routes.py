"""What the page asks the service about itself."""

from fastapi import APIRouter
from pydantic import Field

from tour_pyserini.core.method import METHODS
from tour_pyserini.data import demo_collection
from tour_pyserini.data.topics import read_topics
from tour_pyserini.service.dispatcher import Dispatcher
from tour_pyserini.service.messages import Message

EXAMPLES = 5


class About(Message):
    """What `GET /about` gives: what a search can choose from, and what there is to search."""

    method: str = Field(description="the method of a search that names none")
    methods: list[str] = Field(description="all methods")
    documents: int = Field(description="how many documents the index has")
    most_hits: int = Field(description="longest list of a search")
    most_labels: int = Field(description="most labels of a search")
    examples: list[str] = Field(description="queries to begin with; the embedded collection has some")


def page_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/about`."""
    routes = APIRouter(tags=["state"])
    collection, limits = dispatcher.collection, dispatcher.collection.request
    about = About(
        method=dispatcher.config.method,
        methods=list(METHODS),
        documents=collection.size,
        most_hits=limits.most_hits,
        most_labels=limits.most_labels,
        examples=_examples() if limits.corpus == str(demo_collection.CORPUS) else [],
    )

    @routes.get("/about")
    def about_service() -> About:
        """What a search can choose from."""
        return about

    return routes


def _examples() -> list[str]:
    """Some queries of the embedded collection, from its beginning to its end."""
    queries = [text for _, text in read_topics(demo_collection.QUERIES)]
    return queries[:: len(queries) // EXAMPLES][:EXAMPLES]
