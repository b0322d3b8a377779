"""Docids and passages that a collection of a vector database holds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tour_pyserini.data.documents import Passage, UnknownDocument
from tour_pyserini.stores.engines.engine import Row
from tour_pyserini.stores.engines.store_address import StoreAddress


class _Rows(Protocol):
    """What is needed of a `CollectionStore`."""

    address: StoreAddress
    docids: "StoredDocids"

    @property
    def size(self) -> int: ...

    def rows(self, ids: Sequence[int], what: str) -> list[Row]: ...


class StoredDocids(Sequence[str]):
    """The docids of a collection, by position; those of hits come with the hits, others when they are asked for."""

    def __init__(self, store: _Rows) -> None:
        self._store = store
        self._known: dict[int, str] = {}

    def remember(self, rows: Sequence[Row]) -> None:
        """Keep the docids of passages."""
        self._known |= {row.id: row.docid for row in rows}

    def __len__(self) -> int:
        return self._store.size

    def __getitem__(self, position: Any) -> Any:
        if position not in self._known:
            self.remember(self._store.rows([position], "docid"))
        return self._known[position]

    def __iter__(self) -> Iterator[str]:
        """All docids in order; they are known from then on."""
        if missing := [position for position in range(len(self)) if position not in self._known]:
            self.remember(self._store.rows(missing, "docid"))
        return (self._known[position] for position in range(len(self)))

    def positions(self, docids: Sequence[str]) -> dict[str, int]:
        """The position of each of the docids that the collection has."""
        known = {docid: position for position, docid in self._known.items()}
        if any(docid not in known for docid in docids):
            known = {docid: position for position, docid in enumerate(self)}
        return {docid: known[docid] for docid in docids if docid in known}


class StoredTexts(Mapping[str, str]):
    """Docid to passage, for a collection that holds the texts; passages are asked for many at a time."""

    def __init__(self, store: _Rows) -> None:
        self._store = store
        self._kept: dict[str, Passage] = {}

    def load(self, docids: Sequence[str]) -> None:
        """Fetch the passages that will be read next, in one request; earlier ones are forgotten."""
        self._kept = {docid: self._kept[docid] for docid in docids if docid in self._kept}
        positions = self._store.docids.positions([docid for docid in docids if docid not in self._kept])
        for row in self._store.rows(list(positions.values()), "passage"):
            text = row.passage or ""
            # Title and text are joined by one character, which is there if both are not empty.
            rest = text[row.title :].removeprefix(" ") if row.title else text
            self._kept[row.docid] = Passage(text[: row.title], rest)

    def __getitem__(self, docid: str) -> str:
        if docid not in self._kept:
            self.load([*self._kept, docid])
        if docid not in self._kept:
            raise UnknownDocument(docid, self._store.address)
        return self._kept[docid]

    def __len__(self) -> int:
        return self._store.size

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.docids)
