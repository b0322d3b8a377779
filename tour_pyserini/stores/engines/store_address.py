"""The address of a collection in a vector database: `milvus:demo.db?collection=C`, `qdrant://HOST:6333/C`."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from tour_pyserini.errors import TourError

ENGINES: Mapping[str, str] = {"milvus": "flat, hnsw or ivf", "qdrant": "flat or hnsw"}
"""The engines, and the kinds of index that each of them has."""
KEY_VARIABLE = "TOUR_PYSERINI_STORE_KEY"
"""The environment variable that holds the key of a server, where it asks for one."""

_COUNTS = {"M": "hnsw", "efC": "hnsw", "ef": "hnsw", "nlist": "ivf", "nprobe": "ivf"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_ADDRESS = re.compile(rf"({'|'.join(ENGINES)}):(.*)", re.DOTALL)
_SERVER = re.compile(r"(https?)://([^/?#@\s]+)(?:/([^/?#\s]*))?")


class StoreAddress(NamedTuple):
    """Where a collection is, and how it is searched.

    Attributes:
        engine: `milvus` or `qdrant`.
        location: the address of a server (`http://HOST:PORT`), or the path of an embedded database.
        collection: the name of the collection.
        kind: the kind of index that a new collection gets: flat (exact), hnsw or ivf.
        numbers: settings of that kind: M, efC and ef of hnsw, nlist and nprobe of ivf.
        texts: whether a new collection holds the passages too.
        timeout: seconds for one request.
        retries: how often a request is repeated that failed because the engine was away.
    """

    engine: str
    location: str
    collection: str
    kind: str = "flat"
    numbers: Mapping[str, int] = {}
    texts: bool = True
    timeout: float = 30.0
    retries: int = 5

    @property
    def is_server(self) -> bool:
        """Whether it is a server, not an embedded database."""
        return self.location.startswith(("http://", "https://"))

    @property
    def identity(self) -> str:
        """The same for all addresses of one collection: a short name that can be part of a file name."""
        place = self.location if self.is_server else str(Path(self.location).resolve())
        digest = hashlib.sha256(f"{self.engine} {place} {self.collection}".encode()).hexdigest()[:16]
        return f"{self.engine}-{self.collection}-{digest}"

    def __str__(self) -> str:
        return f"{self.engine}:{self.location}?collection={self.collection}"


def store_address(index: str | os.PathLike[str] | None) -> StoreAddress | None:
    """The address that `--index` gives; None if it names something else, such as a folder.

    Raises:
        TourError: if it begins as the address of a collection and does not go on as one.

    Example:
        >>> store_address("milvus://db.example.org:19530/wiki").location
        'http://db.example.org:19530'
    """
    found = _ADDRESS.fullmatch(index) if isinstance(index, str) else None
    if found is None or Path(str(index)).exists():
        return None
    engine, rest = found.groups()
    place, _, query = rest.partition("?")
    if place.startswith("//"):
        place = f"http:{place}"
    options = _options(str(index), query)
    collection = options.pop("collection", "")
    if place.startswith(("http:", "https:")):
        server = _SERVER.fullmatch(place)
        if server is None:
            raise TourError(f"{index} has no address of a server: write {engine}://HOST:PORT/COLLECTION.")
        scheme, host, named = server.groups()
        place, collection = f"{scheme}://{host}", collection or named or ""
    if not place or not _NAME.fullmatch(collection):
        example = f"{engine}:FOLDER?collection=NAME" if engine == "qdrant" else f"{engine}:FILE.db?collection=NAME"
        raise TourError(
            f"{index} does not name a collection: write {example} or {engine}://HOST:PORT/NAME; a name has letters, "
            "digits and _."
        )
    return StoreAddress(engine, place, collection, **_checked(str(index), engine, options))


def _options(index: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        pairs = [("", query)]
    for name, _ in pairs:
        if name not in ("collection", "kind", "texts", "timeout", "retries", *_COUNTS):
            known = ", ".join(("collection", "kind", *_COUNTS, "texts", "timeout", "retries"))
            raise TourError(f"{index} has the option {name!r}, which stores do not have; they have {known}.")
    return dict(pairs)


def _checked(index: str, engine: str, options: dict[str, str]) -> dict[str, Any]:
    """The options as values."""
    kind = options.get("kind", "flat")
    if kind not in re.findall(r"flat|hnsw|ivf", ENGINES[engine]):
        raise TourError(f"{index}: the kind of an index in {engine} is {ENGINES[engine]}, not {kind!r}.")
    if options.get("texts", "yes") not in ("yes", "no"):
        raise TourError(f"{index}: texts is yes or no, not {options['texts']!r}.")
    numbers = {name: _number(index, name, options[name]) for name in _COUNTS if name in options}
    checked: dict[str, Any] = {"kind": kind, "numbers": numbers, "texts": options.get("texts") != "no"}
    if "timeout" in options:
        checked["timeout"] = float(_number(index, "timeout", options["timeout"]))
    if "retries" in options:
        checked["retries"] = _number(index, "retries", options["retries"], least=0)
    return checked


def _number(index: str, name: str, text: str, *, least: int = 1) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise TourError(f"{index}: {name} is a whole number of at least {least}, not {text!r}.")
    return int(text)
