"""What a vector database must be able to do to hold an index: the interface of an engine, and how one is opened."""

import atexit
import importlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

from tour_pyserini.core.candidates import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.engines.store_address import StoreAddress
from tour_pyserini.support.http_client import back_off

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Row(NamedTuple):
    """One passage of a collection; what was not asked for is None.

    Attributes:
        id: its position in the index.
        docid: its docid.
        vector: [d] its vector.
        passage: title and text.
        title: how many characters of the passage are the title.
        score: of a hit, as the engine computed it.
    """

    id: int
    docid: str
    vector: Any = None
    passage: str | None = None
    title: int = 0
    score: float = 0.0


class CollectionState(NamedTuple):
    """A collection that exists.

    Attributes:
        dimension: d of its vectors.
        size: how many passages it holds now.
        metric: what similarities are, in the engine's word.
        inner_product: whether that is the inner product.
        kind: the kind of index, in the engine's word.
        exact: whether a search finds the true k best.
        consistency: what a search sees of what was written before.
        settings: what it was loaded with, as JSON; empty if another program made it.
    """

    dimension: int
    size: int
    metric: str
    inner_product: bool
    kind: str
    exact: bool
    consistency: str
    settings: str


class Engine(Protocol):
    """A connection to one vector database. Methods raise what the engine's own client raises.

    Attributes:
        most_hits: most hits of a query.
        most_bytes: most bytes of a request or an answer.
    """

    most_hits: int
    most_bytes: int

    def state(self, name: str) -> CollectionState | None:
        """What is known of a collection; None if it does not exist."""
        ...

    def create(self, address: StoreAddress, dimension: int, settings: str, *, bm25: bool) -> None:
        """Make an empty collection."""
        ...

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Put passages into a collection, in place of earlier ones with the same ids."""
        ...

    def finish(self, name: str) -> None:
        """Make everything that was inserted searchable."""
        ...

    def search(
        self, address: StoreAddress, state: CollectionState, vectors: Floats, k: int, *, with_vectors: bool
    ) -> list[list[Row]]:
        """The k hits of each of the vectors [n, d]."""
        ...

    def words(self, name: str, query: str, k: int) -> list[Row]:
        """At most k passages that BM25 finds."""
        ...

    def get(self, name: str, ids: Sequence[int], *, what: str) -> list[Row]:
        """Passages by id, in any order; `what` is docid, vector or passage."""
        ...

    def is_temporary(self, error: Exception) -> bool:
        """Whether a request that failed so may succeed when it is repeated."""
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


_MODULES: Mapping[str, str] = {"milvus": "milvus_engine", "qdrant": "qdrant_engine"}


def open_engine(address: StoreAddress) -> Engine:
    """The connection to the database of an address; one for all collections of a process.

    Raises:
        TourError: if the engine's Python package is missing, or it cannot be opened.
    """
    return _connected(address.engine, address.location, address.timeout)


@cache
def _connected(engine: str, location: str, timeout: float) -> Engine:
    module = importlib.import_module(f"{__package__}.{_MODULES[engine]}")
    try:
        opened: Engine = module.connect(location, timeout)
    except TourError:
        raise
    except Exception as error:  # clients raise errors of many types
        raise TourError(
            f"{engine} cannot be opened at {location} ({first_line(error):.200}); start it or check the address."
        ) from error
    atexit.register(opened.close)
    return opened


def asked(address: StoreAddress, engine: Engine, request: Callable[[], Result]) -> Result:
    """The answer to a request, which is repeated with longer and longer waits while the engine is away.

    Raises:
        TourError: if the engine refuses the request, or is still away at the end.
    """
    for attempt in range(address.retries + 1):
        try:
            return request()
        except TourError:
            raise
        except Exception as error:  # clients raise errors of many types
            reason = first_line(error)[:200]
            if not engine.is_temporary(error):
                raise TourError(f"{address} refuses a request ({reason}).") from error
            failure = error
        if attempt < address.retries:
            wait = back_off(attempt)
            log.warning("%s: %s; trying again in %.1f s", address, reason, wait)
            time.sleep(wait)
    raise TourError(
        f"{address} gave no answer in {address.retries + 1} tries ({reason}); start it again, then run the command "
        "again: labels that were bought are kept."
    ) from failure
