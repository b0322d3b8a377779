"""Docids and passages that a collection of a vector database holds; several threads may ask for them."""

import threading
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
        # Entries are added and looked up, one by one: neither is ever walked through while another thread adds to it.
        self._known: dict[int, str] = {}
        self._positions: dict[str, int] = {}

    def remember(self, rows: Sequence[Row]) -> None:
        """Keep the docids of passages."""
        for row in rows:
            self._positions[row.docid] = row.id
            self._known[row.id] = row.docid

    def __len__(self) -> int:
        return self._store.size

    def __getitem__(self, position: Any) -> Any:
        if position not in self._known:
            self.remember(self._store.rows([position], "docid"))
        return self._known[position]

    def __iter__(self) -> Iterator[str]:
        """All docids in order; they are known from then on."""
        self._fetch_all()
        return (self._known[position] for position in range(len(self)))

    def positions(self, docids: Sequence[str]) -> dict[str, int]:
        """The position of each of the docids that the collection has."""
        if len(self._known) < len(self) and any(docid not in self._positions for docid in docids):
            self._fetch_all()
        return {docid: self._positions[docid] for docid in docids if docid in self._positions}

    def _fetch_all(self) -> None:
        if missing := [position for position in range(len(self)) if position not in self._known]:
            self.remember(self._store.rows(missing, "docid"))


class StoredTexts(Mapping[str, str]):
    """Docid to passage, for a collection that holds the texts; passages are asked for many at a time.

    Each thread has its own passages, so that none forgets what another one will read next.
    """

    def __init__(self, store: _Rows) -> None:
        self._store = store
        self._of_thread = threading.local()

    def load(self, docids: Sequence[str]) -> None:
        """Fetch the passages that this thread will read next, in one request; its earlier ones are forgotten."""
        kept = {docid: self._kept[docid] for docid in docids if docid in self._kept}
        self._of_thread.kept = kept | self._fetched([docid for docid in docids if docid not in kept])

    def __getitem__(self, docid: str) -> str:
        kept = self._kept
        if docid not in kept:
            kept |= self._fetched([docid])
        if docid not in kept:
            raise UnknownDocument(docid, self._store.address)
        return kept[docid]

    def __len__(self) -> int:
        return self._store.size

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.docids)

    @property
    def _kept(self) -> dict[str, Passage]:
        return self._of_thread.__dict__.setdefault("kept", {})

    def _fetched(self, docids: Sequence[str]) -> dict[str, Passage]:
        """The passages of those docids that the collection has."""
        found = {}
        for row in self._store.rows(list(self._store.docids.positions(docids).values()), "passage"):
            text = row.passage or ""
            # Title and text are joined by one character, which is there if both are not empty.
            rest = text[row.title :].removeprefix(" ") if row.title else text
            found[row.docid] = Passage(text[: row.title], rest)
        return found
