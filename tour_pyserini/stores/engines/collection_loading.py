"""Loading an encoded corpus into a collection of a vector database, in batches; an interrupted load goes on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.stores.engines.collection_store import CollectionStore, made_here, open_collection
from tour_pyserini.stores.engines.engine import Row, asked, open_engine
from tour_pyserini.stores.engines.store_address import StoreAddress


class CollectionLoading:
    """A collection that is being loaded. The collection itself says how far an earlier load came.

    Attributes:
        done: documents that it holds, in whole chunks.
    """

    def __init__(
        self, address: StoreAddress, settings: Mapping[str, Any], texts: Mapping[str, str], *, bm25: bool
    ) -> None:
        """Make the collection, or go on with it.

        Args:
            address: the collection.
            settings: everything that the vectors depend on; it must have `documents`, `dimension` and `chunk`.
            texts: the passages by docid.
            bm25: whether the collection finds passages by BM25 too.

        Raises:
            TourError: if the collection is complete, was made by another program, or with other settings.
        """
        if bm25 and not address.texts:
            raise TourError("--bm25 in a collection reads the texts that it holds; leave out texts=no, or --bm25.")
        self._address, self._engine, self._texts = address, open_engine(address), texts
        kind = {
            "kind": address.kind,
            **{name: n for name, n in address.numbers.items() if name not in ("ef", "nprobe")},
        }
        store = {**kind, "texts": address.texts, "bm25": bm25}
        self._settings = json.loads(json.dumps({**settings, "store": store}))
        self._chunk: int = settings["chunk"]
        name, dimension = address.collection, settings["dimension"]
        state = self._ask(lambda: self._engine.state(name))
        if state is None:
            text = json.dumps(self._settings)
            self._ask(lambda: self._engine.create(address, dimension, text, bm25=bm25))
            self.done = 0
            return
        if not made_here(state):
            raise TourError(f"{address} was made by another program; choose another name.")
        self._refuse_other_settings(json.loads(state.settings))
        if state.size == settings["documents"]:
            raise TourError(f"{address} is complete already; choose another name, or delete it.")
        self.done = state.size - state.size % self._chunk

    def append(self, docids: Sequence[str], vectors: Floats) -> None:
        """Add a chunk of docids [n] and vectors [n, d]; the engine has them when this returns."""
        rows = [
            self._row(self.done + number, docid, vector)
            for number, (docid, vector) in enumerate(zip(docids, vectors, strict=True))
        ]
        part: list[Row] = []
        size = 0
        for row in rows:
            # A number takes 4 bytes, or about 12 as text.
            needs = 12 * vectors.shape[1] + 4 * len(row.passage or "") + 256
            if part and size + needs > self._engine.most_bytes:
                self._insert(part)
                part, size = [], 0
            part.append(row)
            size += needs
        self._insert(part)
        self.done += len(rows)

    def finish(self) -> CollectionStore:
        """Make everything searchable, and check that nothing is missing."""
        self._ask(lambda: self._engine.finish(self._address.collection))
        return open_collection(self._address)

    def _row(self, position: int, docid: str, vector: Floats) -> Row:
        if not self._address.texts:
            return Row(position, docid, vector)
        passage = self._texts[docid]
        title = len(passage.parts[0]) if isinstance(passage, Passage) else 0
        return Row(position, docid, vector, str(passage), title)

    def _insert(self, rows: list[Row]) -> None:
        self._ask(lambda: self._engine.insert(self._address.collection, rows))

    def _ask(self, request: Any) -> Any:
        return asked(self._address, self._engine, request)

    def _refuse_other_settings(self, before: Mapping[str, Any]) -> None:
        now = self._settings
        if other := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            name = other[0]
            raise TourError(
                f"{self._address} was loaded with another {name} ({before.get(name)!r:.100}, now "
                f"{now.get(name)!r:.100}); use the same again, choose another name, or delete the collection."
            )
