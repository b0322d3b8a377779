"""Vector databases: the addresses of their collections, what one must be able to do, and requests to it.

An address is `milvus:demo.db?collection=C`, `qdrant://HOST:6333/C`, `postgresql://HOST/DATABASE#C`, ...
"""

import atexit
import importlib
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qsl, urlencode

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.http_client import back_off

if TYPE_CHECKING:
    from tour_pyserini.stores.filters import Filter

log = logging.getLogger(__name__)

KEY_VARIABLE = "TOUR_PYSERINI_STORE_KEY"
"""The environment variable that holds the key of a server, where it asks for one."""

_KINDS = {"milvus": ("flat", "hnsw", "ivf"), "qdrant": ("flat", "hnsw"), "pgvector": ("flat", "hnsw")}
_NUMBERS = ("M", "efC", "ef", "nlist", "nprobe")
_OPTIONS = ("collection", "kind", *_NUMBERS, "texts", "timeout")
_EXAMPLES = {
    "milvus": "milvus:FILE.db?collection=NAME or milvus://HOST:PORT/NAME",
    "qdrant": "qdrant:FOLDER?collection=NAME or qdrant://HOST:PORT/NAME",
    "pgvector": "postgresql://HOST/DATABASE#NAME",
}
ADDRESSES = ", ".join(_EXAMPLES.values())
"""What addresses look like, for help texts."""
_RETRIES = 5  # of a request that failed because the engine was away
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_ADDRESS = re.compile(r"(milvus|qdrant|postgres(?:ql)?):(.*)", re.DOTALL)
_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@|[?&]password=")
_SERVER = re.compile(r"(https?:)?//([^/?#@\s]+)(?:/([^/?#\s]*))?")


class StoreAddress(NamedTuple):
    """Where a collection is, and how it is searched.

    Attributes:
        engine: `milvus`, `qdrant` or `pgvector`.
        location: the address of a server (`http://HOST:PORT`, `postgresql://HOST/DATABASE`), or the path of an
            embedded database.
        collection: the name of the collection, or of the table.
        kind: the kind of index that a new collection gets: flat (exact), hnsw or ivf.
        numbers: settings of that kind: M, efC and ef of hnsw, nlist and nprobe of ivf.
        texts: whether a new collection holds the passages too.
        timeout: seconds for one request.
    """

    engine: str
    location: str
    collection: str
    kind: str = "flat"
    numbers: Mapping[str, int] = {}
    texts: bool = True
    timeout: float = 30.0

    def __str__(self) -> str:
        if self.engine == "pgvector":
            return f"{self.location}#{self.collection}"
        return f"{self.engine}:{self.location}?collection={self.collection}"


def store_address(index: Any) -> StoreAddress | None:
    """The address that `--index` gives; None if it names something else, such as a folder.

    Raises:
        TourError: if it begins as the address of a collection and does not go on as one.

    Example:
        >>> store_address("milvus://db.example.org:19530/wiki").location
        'http://db.example.org:19530'
    """
    found = _ADDRESS.fullmatch(index) if isinstance(index, str) else None
    if found is None or Path(index).exists():
        return None
    (engine, rest), table = found.groups(), ""
    if engine not in _KINDS:
        engine, (rest, _, table) = "pgvector", index.partition("#")
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    others = {name: value for name, value in options.items() if name not in _OPTIONS}
    collection = options.get("collection", table)
    if engine == "pgvector":
        place += f"?{urlencode(others)}" if others else ""
        if _PASSWORD.search(place):
            raise TourError("records of runs show the address of a database: write its password into ~/.pgpass.")
    elif others:
        raise TourError(f"{index} has the option {next(iter(others))!r}; stores have {', '.join(_OPTIONS)}.")
    elif place.startswith(("//", "http:", "https:")):
        server = _SERVER.fullmatch(place)
        if server is None:
            raise TourError(f"{index} has no address of a server: write {engine}://HOST:PORT/COLLECTION.")
        place, collection = f"{server[1] or 'http:'}//{server[2]}", collection or server[3] or ""
    if not place or not _NAME.fullmatch(collection):
        allowed = "at most 63 letters, digits and _, and no digit first"
        raise TourError(f"{index} does not name a collection: write {_EXAMPLES[engine]}; a name has {allowed}.")
    kind = options.get("kind", "flat")
    if kind not in _KINDS[engine]:
        raise TourError(f"{index}: the kind of a collection is {' or '.join(_KINDS[engine])}, not {kind!r}.")
    numbers = {name: int(options[name]) for name in _NUMBERS if name in options}
    timeout = float(options.get("timeout", 30))
    return StoreAddress(engine, place, collection, kind, numbers, options.get("texts") != "no", timeout)


class Row(NamedTuple):
    """One passage of a collection; what was not asked for is None.

    Attributes:
        id: its position in the index.
        docid: its docid.
        vector: [d] its vector.
        passage: title and text.
        title: how many characters of the passage are the title.
        fields: what filters read of it.
        score: of a hit, as the engine computed it.
    """

    id: int
    docid: str
    vector: Any = None
    passage: str | None = None
    title: int = 0
    fields: Mapping[str, Any] = {}
    score: float = 0.0


class CollectionState(NamedTuple):
    """A collection that exists.

    Attributes:
        dimension: d of its vectors.
        size: how many passages it holds now.
        kind: the kind of index, in the engine's word.
        exact: whether a search finds the true k best.
        settings: what it was loaded with, as JSON; empty if another program made it.
    """

    dimension: int
    size: int
    kind: str
    exact: bool
    settings: str


FOREIGN = CollectionState(0, 0, "none", False, "")
"""A collection whose vectors are not as this package stores them."""


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

    def create(self, address: StoreAddress, dimension: int, settings: str, *, bm25: bool) -> None:
        """Make an empty collection."""

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Put passages into a collection, in place of earlier ones with the same ids."""

    def finish(self, name: str) -> None:
        """Make everything that was inserted searchable."""

    def search(
        self, address: StoreAddress, state: CollectionState, vectors: Floats, k: int, wanted: "Filter | None"
    ) -> list[list[Row]]:
        """The k hits of each of the vectors [n, d], with their own vectors, among passages that pass the filter."""

    def words(self, name: str, query: str, k: int, wanted: "Filter | None") -> list[Row]:
        """At most k passages that BM25 finds among those that pass the filter."""

    def passing(self, name: str, ids: Sequence[int], wanted: "Filter") -> Sequence[int]:
        """Those of the ids whose passages pass the filter, in any order."""

    def get(self, name: str, ids: Sequence[int], *, what: str) -> list[Row]:
        """Passages by id, in any order; `what` is docid, vector or passage."""

    def is_temporary(self, error: Exception) -> bool:
        """Whether a request that failed so may succeed when it is repeated."""

    def close(self) -> None:
        """Give up the connection."""


def open_engine(address: StoreAddress) -> Engine:
    """The connection to the database of an address, which repeats requests while the database is away.

    Raises:
        TourError: if the engine's Python package is missing, it cannot be opened, it refuses a request, or is still
            away at the end.
    """
    return cast(Engine, _PatientEngine(address, _connect(address.engine, address.location, address.timeout)))


@cache  # one for all collections of a process
def _connect(engine: str, location: str, timeout: float) -> Engine:
    module = importlib.import_module(f"{__package__}.{engine}")
    try:
        opened: Engine = module.connect(location, timeout)
    except TourError:
        raise
    except Exception as error:  # clients raise errors of many types
        reason = first_line(error)[:200]
        raise TourError(f"{engine} cannot be opened at {location} ({reason}); start it, check the address.") from error
    atexit.register(opened.close)
    return opened


class _PatientEngine:
    """An engine whose requests are repeated with longer and longer waits while it is away."""

    def __init__(self, address: StoreAddress, engine: Engine) -> None:
        self._address, self._engine = address, engine

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        return partial(self._ask, found) if callable(found) else found

    def _ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        for attempt in count():
            try:
                return request(*arguments, **options)
            except TourError:
                raise
            except Exception as error:  # clients raise errors of many types
                reason = first_line(error)[:200]
                if not self._engine.is_temporary(error):
                    raise TourError(f"{self._address} refuses a request ({reason}).") from error
                if attempt == _RETRIES:
                    raise TourError(f"{self._address} gave no answer in {attempt + 1} tries ({reason}).") from error
            wait = back_off(attempt)
            log.warning("%s: %s; trying again in %.1f s", self._address, reason, wait)
            time.sleep(wait)
