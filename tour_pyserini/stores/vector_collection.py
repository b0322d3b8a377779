"""A collection of a vector database as a store: loading it, searching it in exact order, its docids and passages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.data.texts import BeirTexts, Passage, UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import COMPARED, EXTRA_HITS, rank_exactly
from tour_pyserini.stores.filters import Filter, Within
from tour_pyserini.stores.vector_database import CollectionState, Engine, Row, StoreAddress, open_engine
from tour_pyserini.support.resumable import refuse_other_settings

_ROW_BYTES = 1024  # what a docid and the names of fields take in an answer, roughly
_PASSAGE_BYTES = 65_535  # the longest passage that Milvus keeps
_KEPT = 10_000  # passages


class CollectionStore:
    """Searches a collection that `python -m tour_pyserini.index` loaded; see `Store`.

    Vectors come back with the hits. Similarities are computed from them as FAISS computes them, and the hits are put
    in that order: an exact collection gives the hits, and the bits, of a flat FAISS index.

    Attributes:
        address: where it is.
        state: what the engine says of it.
        dimension: d of the vectors.
        size: how many passages it holds.
        settings: what it was loaded with.
        exact: always true: a collection holds the vectors as they were added.
        docids: the docid at each position.
        texts: the passages by docid; None if the collection does not hold them.
    """

    exact = True

    def __init__(
        self, address: StoreAddress, engine: Engine, state: CollectionState, settings: Mapping[str, Any]
    ) -> None:
        """Use a collection that has been checked; `open` checks it."""
        self.address, self.state, self.engine, self.settings = address, state, engine, settings
        self.dimension, self.size = state.dimension, state.size
        self.docids = _StoredDocids(self)
        self.texts = _StoredTexts(self) if self.settings["store"]["texts"] else None
        self._last: tuple[Ids, Floats] = np.empty(0, dtype=np.int64), np.empty((0, state.dimension), dtype=np.float32)

    @classmethod
    def open(cls, address: StoreAddress) -> Self:
        """Open a collection that the index command loaded.

        Raises:
            TourError: if it does not exist, is not complete, or was made by another program.
        """
        engine = open_engine(address)
        state = engine.state(address.collection)
        load = f"load it with python -m tour_pyserini.index --index {address}"
        if state is None:
            raise TourError(f"{address} does not exist; {load}.")
        settings = _settings_of(state)
        if settings is None:
            raise TourError(f"{address} was made by another program; {load}, under another name.")
        if state.size != settings["documents"]:
            raise TourError(f"{address} holds {state.size} of {settings['documents']} documents; {load} to go on.")
        return cls(address, engine, state, settings)

    def description(self) -> dict[str, Any]:
        """What the record of a run says of it: engine, dimension, size, kind of index, whether searches are exact."""
        state = self.state._asdict()
        del state["settings"]
        return {"engine": self.address.engine, **state}

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the vectors [n, d], best first; `threads` is left to the engine."""
        return self._search(vectors, k, None)

    def within(self, wanted: Filter) -> "_StoredWithin":
        """The passages that pass a filter, which the engine applies."""
        return _StoredWithin(self, wanted)

    def search_within(self, vectors: Floats, k: int, within: "_StoredWithin", *, threads: int = 1) -> Hits:
        """The k hits of each of the vectors [n, d] among the passages that pass a filter, best first.

        Where an approximate index finds fewer, the query is compared with all that pass, if they are not too many.
        """
        hits = self._search(vectors, k, within.wanted)
        short = np.flatnonzero((hits.ids < 0).any(axis=1))
        if self.state.exact or not len(short):
            return hits
        if 0 < len(within.ids) <= COMPARED:
            queries, own = np.ascontiguousarray(vectors, dtype=np.float32), self.fetch(within.ids)
            for row in short:
                best, similarities, _ = rank_exactly(queries[row], within.ids, own)
                count = min(len(best), hits.ids.shape[1])
                hits.ids[row, :count], hits.similarities[row, :count] = best[:count], similarities[:count]
        return hits

    def _search(self, vectors: Floats, k: int, passing: Filter | None) -> Hits:
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        k, most = min(k, self.size), min(self.size, self.engine.most_hits, self._per_answer)
        if k > most:
            raise TourError(f"{self.address} gives at most {most} hits of a query; ask for fewer.")
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=np.float32)
        rows, wanted = list(range(len(queries))), k + EXTRA_HITS
        while rows:
            wanted = min(wanted, most)
            found = zip(rows, self._hits(queries[rows], wanted, passing), strict=True)
            # Of approximate collections, more hits would not be more exact.
            more = [
                row
                for row, hits in found
                if self._rank(queries[row], hits, ids[row], similarities[row]) and len(hits) == wanted
            ]
            rows, wanted = more if self.state.exact and wanted < most else [], 2 * wanted
        return Hits(ids, similarities)

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the passages [m]; those of the last search's hits are not asked for again."""
        known, vectors = self._last
        distinct, places = np.unique(ids, return_inverse=True)
        result = np.empty((len(distinct), self.dimension), dtype=np.float32)
        is_known = np.isin(distinct, known)
        result[is_known] = vectors[np.searchsorted(known, distinct[is_known])]
        if not is_known.all():
            result[~is_known] = np.stack([row.vector for row in self.rows(distinct[~is_known].tolist(), "vector")])
        return result[places]

    def words(self, query: str, k: int, wanted: Filter | None = None) -> list[Row]:
        """At most k passages that BM25 finds, best first; of equal scores, the smaller id is first.

        Raises:
            TourError: if the collection was loaded without BM25.
        """
        hits = self.engine.words(self.address.collection, query, min(k, self.engine.most_hits), wanted)
        self.docids.remember(hits)
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def rows(self, ids: Sequence[int], what: str) -> list[Row]:
        """Passages by id, in this order; `what` is docid, vector or passage."""
        step = _rows_per_request(self.engine, self.dimension, what)
        found: dict[int, Row] = {}
        for start in range(0, len(ids), step):
            part = ids[start : start + step]
            found |= {row.id: row for row in self.engine.get(self.address.collection, part, what=what)}
        return [found[id_] for id_ in ids]

    @property
    def _per_answer(self) -> int:
        """How many hits with their vectors fit into an answer."""
        return max(1, self.engine.most_bytes // (_ROW_BYTES + 4 * self.dimension))

    def _hits(self, queries: Floats, k: int, passing: Filter | None) -> list[list[Row]]:
        """The engine's k hits of each query, in requests whose answers are not too large."""
        step = max(1, min(self._per_answer // k, self.engine.most_hits))
        found: list[list[Row]] = []
        for start in range(0, len(queries), step):
            found += self.engine.search(self.address, self.state, queries[start : start + step], k, passing)
        vectors: dict[int, Floats] = {}
        for hits in found:
            self.docids.remember(hits)
            vectors.update((hit.id, hit.vector) for hit in hits)
        if known := sorted(vectors):
            self._last = np.array(known, dtype=np.int64), np.stack([vectors[id_] for id_ in known])
        return found

    def _rank(self, query: Floats, hits: list[Row], ids: Ids, similarities: Floats) -> bool:
        """Write the best of the hits into ids [k] and similarities [k]; true if another passage may belong there."""
        if not hits:
            return False
        found, vectors = np.array([hit.id for hit in hits], dtype=np.int64), np.stack([hit.vector for hit in hits])
        best, exact, rounding = rank_exactly(query, found, vectors)
        count = min(len(ids), len(best))
        ids[:count], similarities[:count] = best[:count], exact[:count]
        return float(exact[count - 1]) <= min(hit.score for hit in hits) + rounding


def _settings_of(state: CollectionState) -> dict[str, Any] | None:
    """What the index command loaded a collection with; None if another program made it."""
    try:
        settings = json.loads(state.settings)
    except ValueError:
        return None
    return settings if isinstance(settings, dict) and "encoder_fingerprint" in settings else None


class _StoredWithin(Within):
    """The passages of a collection that pass a filter; what the engine said of one is remembered."""

    def __init__(self, store: CollectionStore, wanted: Filter) -> None:
        self.wanted, self.address, self._store = wanted, store.address, store
        self._known: dict[int, bool] = {-1: False}

    @cached_property
    def ids(self) -> Ids:
        """Those that do, ascending; the engine is asked about all."""
        ids = np.arange(self._store.size)
        return ids[self.passes(ids)]

    def passes(self, ids: Ids) -> np.ndarray:
        """Whether each of the passages passes; -1 never does."""
        asked = [id_ for id_ in np.unique(ids).tolist() if id_ not in self._known]
        engine, name = self._store.engine, self._store.address.collection
        for start in range(0, len(asked), engine.most_hits):
            part = asked[start : start + engine.most_hits]
            self._known |= dict.fromkeys(part, False) | dict.fromkeys(engine.passing(name, part, self.wanted), True)
        return np.array([self._known[id_] for id_ in ids.ravel().tolist()], dtype=bool).reshape(ids.shape)


class _StoredDocids(Sequence[str]):
    """The docids of a collection, by position; those of hits come with the hits, others when they are asked for.

    Several threads may ask for them.
    """

    def __init__(self, store: CollectionStore) -> None:
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


class _StoredTexts(Mapping[str, str]):
    """Docid to passage, for a collection that holds the texts; passages are asked for many at a time."""

    def __init__(self, store: CollectionStore) -> None:
        self._store = store
        self._known: dict[str, Passage] = {}

    def load(self, docids: Sequence[str]) -> None:
        """Fetch the passages that will be read next, in one request; when many are kept, earlier ones are forgotten."""
        if len(self._known) > _KEPT:
            self._known = {}
        known = self._known  # other threads add to it, too
        known.update(self._fetch([docid for docid in docids if docid not in known]))

    def __getitem__(self, docid: str) -> str:
        passage = self._known.get(docid) or self._fetch([docid]).get(docid)
        if passage is None:
            raise UnknownDocument(docid, self._store.address)
        return passage

    def __len__(self) -> int:
        return self._store.size

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.docids)

    def _fetch(self, docids: Sequence[str]) -> dict[str, Passage]:
        """The passages of those docids that the collection has."""
        found = {}
        for row in self._store.rows(list(self._store.docids.positions(docids).values()), "passage"):
            text = row.passage or ""
            # Title and text are joined by one character, which is there if both are not empty.
            rest = text[row.title :].removeprefix(" ") if row.title else text
            found[row.docid] = Passage(text[: row.title], rest)
        return found


class CollectionLoading:
    """A collection that is being loaded, in batches. The collection itself says how far an earlier load came.

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
        self._address, self.engine, self._texts = address, open_engine(address), texts
        numbers = {name: n for name, n in address.numbers.items() if name not in ("ef", "nprobe")}
        store = {"kind": address.kind, **numbers, "texts": address.texts, "bm25": bm25}
        now = json.loads(json.dumps({**settings, "store": store}))
        state = self.engine.state(address.collection)
        if state is None:
            self.engine.create(address, settings["dimension"], json.dumps(now), bm25=bm25)
            self.done = 0
            return
        before = _settings_of(state)
        if before is None:
            raise TourError(f"{address} was made by another program; choose another name.")
        refuse_other_settings(address, before, now)
        if state.size == settings["documents"]:
            raise TourError(f"{address} is complete already; choose another name, or delete it.")
        self.done = state.size - state.size % settings["chunk"]

    def append(self, docids: Sequence[str], vectors: Floats) -> None:
        """Add a chunk of docids [n] and vectors [n, d]; the engine has them when this returns."""
        records = zip(range(self.done, self.done + len(docids)), docids, vectors, strict=True)
        rows = [self._row(*record) for record in records]
        step = _rows_per_request(self.engine, vectors.shape[1], "passage" if self._address.texts else "vector")
        for start in range(0, len(rows), step):
            self.engine.insert(self._address.collection, rows[start : start + step])
        self.done += len(docids)

    def finish(self) -> CollectionStore:
        """Make everything searchable, and check that nothing is missing."""
        self.engine.finish(self._address.collection)
        return CollectionStore.open(self._address)

    def _row(self, position: int, docid: str, vector: Floats) -> Row:
        fields = self._texts.document(docid).fields if isinstance(self._texts, BeirTexts) else {}
        if not self._address.texts:
            return Row(position, docid, vector, fields=fields)
        passage = self._texts[docid]
        title = len(passage.parts[0]) if isinstance(passage, Passage) else 0
        return Row(position, docid, vector, str(passage), title, fields)


def _rows_per_request(engine: Engine, dimension: int, what: str) -> int:
    """How many docids, vectors or whole passages a request or an answer has; a number may be written as text."""
    needs = {"docid": 0, "vector": 12 * dimension, "passage": 12 * dimension + _PASSAGE_BYTES}
    return max(1, engine.most_bytes // (_ROW_BYTES + needs[what]))
