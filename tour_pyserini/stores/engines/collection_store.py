"""A collection of a vector database as a store: requests of a size that the engine takes, and hits in exact order."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.stores.engines.collection_texts import StoredDocids, StoredTexts
from tour_pyserini.stores.engines.engine import CollectionState, Engine, Row, asked, open_engine
from tour_pyserini.stores.engines.store_address import StoreAddress
from tour_pyserini.stores.flat_search import rounding_error, similarities_of

# Hits that are asked for in addition to k. Rounding changes the rank of a hit by one or two, unless there are ties.
_EXTRA_HITS = 16
_ROW_BYTES = 1024  # what a docid and the names of fields take in an answer, roughly
_PASSAGE_BYTES = 65_535  # the longest passage that Milvus keeps


class CollectionStore:
    """Searches a collection that `python -m tour_pyserini.index` loaded; see `Store`.

    Vectors come back with the hits. Similarities are computed from them as FAISS computes them, and the hits are put
    in that order: an exact collection gives the hits, and the bits, of a flat FAISS index.

    Attributes:
        address: where it is.
        state: what the engine says of it.
        settings: what it was loaded with.
        exact: always true: a collection holds the vectors as they were added.
        docids: the docid at each position.
        texts: the passages by docid; None if the collection does not hold them.
    """

    exact = True

    def __init__(self, address: StoreAddress, engine: Engine, state: CollectionState) -> None:
        """Use a collection that has been checked; `open_collection` checks it."""
        self.address, self.state, self._engine = address, state, engine
        self.settings: Mapping[str, Any] = json.loads(state.settings)
        self.docids = StoredDocids(self)
        self.texts = StoredTexts(self) if self.settings["store"]["texts"] else None
        self._last: tuple[Ids, Floats] = np.empty(0, dtype=np.int64), np.empty((0, state.dimension), dtype=np.float32)

    @property
    def dimension(self) -> int:
        """The dimension d of the vectors."""
        return self.state.dimension

    @property
    def size(self) -> int:
        """How many passages it holds."""
        return self.state.size

    def description(self) -> dict[str, Any]:
        """What a record says of it: engine, metric, kind of index, whether searches are exact, consistency."""
        told = ("metric", "kind", "exact", "consistency", "size", "dimension")
        return {"engine": self.address.engine, **{name: getattr(self.state, name) for name in told}}

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the vectors [n, d], best first; `threads` is left to the engine."""
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        k = min(k, self.size)
        if k > self._engine.most_hits:
            raise TourError(f"{self.address} gives at most {self._engine.most_hits} hits of a query; ask for fewer.")
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=np.float32)
        rows, wanted = np.arange(len(queries)), k + _EXTRA_HITS
        while len(rows):
            wanted = min(wanted, self.size, self._engine.most_hits)
            found = self._hits(queries[rows], wanted)
            open_rows = []
            for row, hits in zip(rows.tolist(), found, strict=True):
                more = self._rank(queries[row], hits, ids[row], similarities[row])
                if more and self.state.exact and wanted < min(self.size, self._engine.most_hits):
                    open_rows.append(row)
            rows, wanted = np.array(open_rows, dtype=np.int64), 2 * wanted
        return Hits(ids, similarities)

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] of the passages [m]; those of the last search's hits are not asked for again."""
        known, vectors = self._last
        distinct, places = np.unique(ids, return_inverse=True)
        result = np.empty((len(distinct), self.dimension), dtype=np.float32)
        at = np.minimum(np.searchsorted(known, distinct), max(len(known) - 1, 0))
        is_known = known[at] == distinct if len(known) else np.zeros(len(distinct), dtype=bool)
        result[is_known] = vectors[at[is_known]]
        if not is_known.all():
            result[~is_known] = np.stack([row.vector for row in self.rows(distinct[~is_known].tolist(), "vector")])
        return result[places]

    def rows(self, ids: Sequence[int], what: str) -> list[Row]:
        """Passages by id, in this order; `what` is docid, vector or passage."""
        needs = _ROW_BYTES + {"docid": 0, "vector": 4 * self.dimension, "passage": _PASSAGE_BYTES}[what]
        step = max(1, self._engine.most_bytes // needs)
        found: dict[int, Row] = {}
        for start in range(0, len(ids), step):
            part = ids[start : start + step]
            for row in self._ask(lambda part=part: self._engine.get(self.address.collection, part, what=what)):
                found[row.id] = row
        for id_ in ids:
            if id_ not in found:
                raise TourError(f"{self.address} has no passage {id_} any more; load it again.")
        return [found[id_] for id_ in ids]

    def found_by_words(self, query: str, k: int) -> list[Row]:
        """At most k passages that BM25 finds, best first; of equal scores, the smaller id is first."""
        hits = self._ask(lambda: self._engine.words(self.address.collection, query, min(k, self._engine.most_hits)))
        self.docids.remember(hits)
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def _ask(self, request: Any) -> Any:
        return asked(self.address, self._engine, request)

    def _hits(self, queries: Floats, k: int) -> list[list[Row]]:
        """The engine's k hits of each query with their vectors, in requests whose answers are not too large."""
        most = self._engine.most_bytes // (_ROW_BYTES + 4 * self.dimension)
        with_vectors, step = k <= most, max(1, min(most // k, self._engine.most_hits))
        found: list[list[Row]] = []
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            found += self._ask(
                lambda part=part: self._engine.search(self.address, self.state, part, k, with_vectors=with_vectors)
            )
        for hits in found:
            self.docids.remember(hits)
        if not with_vectors:
            found = [
                [hit._replace(vector=row.vector) for hit, row in zip(hits, full, strict=True)]
                for hits in found
                for full in [self.rows([hit.id for hit in hits], "vector")]
            ]
        vectors = {hit.id: hit.vector for hits in found for hit in hits}
        known = np.array(sorted(vectors), dtype=np.int64)
        if len(known):
            self._last = known, np.stack([vectors[id_] for id_ in known.tolist()])
        return found

    def _rank(self, query: Floats, hits: list[Row], ids: Ids, similarities: Floats) -> bool:
        """Write the best of the hits into ids [k] and similarities [k]; true if another passage may belong there."""
        if not hits:
            return False
        vectors, found = np.stack([hit.vector for hit in hits]), np.array([hit.id for hit in hits], dtype=np.int64)
        if not 0 <= int(found.min()) <= int(found.max()) < self.size:
            raise TourError(f"{self.address} was changed since it was loaded: it gives ids outside it; load it again.")
        exact = similarities_of(query, vectors)
        order = np.lexsort((-found, -exact))[: len(ids)]
        ids[: len(order)], similarities[: len(order)] = found[order], exact[order]
        largest = float(np.linalg.norm(vectors, axis=1).max())
        last = min(hit.score for hit in hits)
        return float(similarities[len(order) - 1]) <= last + float(rounding_error(query, largest))


def open_collection(address: StoreAddress) -> CollectionStore:
    """Open a collection that the index command loaded.

    Raises:
        TourError: if it does not exist, is not complete, or was made by another program.
    """
    engine = open_engine(address)
    state = asked(address, engine, lambda: engine.state(address.collection))
    load = f"load it with python -m tour_pyserini.index --index {address}"
    if state is None:
        raise TourError(f"{address} does not exist; {load}.")
    if not state.inner_product:
        raise TourError(f"{address} ranks by {state.metric}, not by inner product; {load}, under another name.")
    if not made_here(state):
        raise TourError(
            f"{address} was made by another program; {load}, under another name, or search it by a store of your own "
            "(docs/extending.md)."
        )
    store = CollectionStore(address, engine, state)
    if state.size != store.settings["documents"]:
        raise TourError(f"{address} holds {state.size} of {store.settings['documents']} documents; {load} to go on.")
    return store


def made_here(state: CollectionState) -> bool:
    """Whether the index command made a collection."""
    try:
        settings = json.loads(state.settings)
    except ValueError:
        return False
    return isinstance(settings, dict) and {"documents", "encoder_fingerprint", "store"} <= settings.keys()
