"""Qdrant as an engine: a server, or the local mode of its client, which searches exactly in this process."""

import contextlib
import io
import os
import pickle
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.filters import Filter
from tour_pyserini.stores.vector_database import FOREIGN, KEY_VARIABLE, CollectionState, Row, StoreAddress
from tour_pyserini.support.packages import import_optional

_KIND, _SETTINGS = "tour_kind", "tour_settings"
_BM25 = {"k": 0.9, "b": 0.4}  # Pyserini's
_EF = 128
# What a point of the local mode consists of: its client keeps each as a pickle, in an SQLite file per collection.
_ALLOWED = {
    ("qdrant_client.http.models.models", "PointStruct"),
    ("qdrant_client.http.models.models", "SparseVector"),
    ("builtins", "set"),
}


def connect(location: str, timeout: float) -> "_QdrantEngine":
    """Connect to a server, or open the folder of a local database, once its points have been checked."""
    qdrant = import_optional("qdrant_client", extra="qdrant")
    if location.startswith("http"):
        key = os.environ.get(KEY_VARIABLE, "").strip() or None
        client = qdrant.QdrantClient(url=location, api_key=key, timeout=int(timeout), check_compatibility=False)
        client.get_collections()  # nothing is sent before
    else:
        _check_points(Path(location))
        client = qdrant.QdrantClient(path=location)
    return _QdrantEngine(qdrant, client, is_local=not location.startswith("http"))


class _QdrantEngine:
    """A connection to Qdrant; see `Engine`."""

    most_hits = 1 << 20
    most_bytes = 16 << 20  # half of the 32 MiB that a request may have; numbers are written as text

    def __init__(self, qdrant: Any, client: Any, *, is_local: bool) -> None:
        """Use a QdrantClient of the package qdrant_client."""
        self._models, self._client, self._is_local = qdrant.models, client, is_local
        self._away = import_optional("qdrant_client.http.exceptions", extra="qdrant")
        self.close = client.close

    def state(self, name: str) -> CollectionState | None:
        """What is known of a collection; None if it does not exist."""
        if not self._client.collection_exists(name):
            return None
        config = self._client.get_collection(name).config
        vectors, made = config.params.vectors, config.metadata or {}
        if not hasattr(vectors, "distance"):  # a dictionary of named vectors
            return FOREIGN
        exact = made.get(_KIND) == "flat"
        return CollectionState(
            dimension=vectors.size,
            size=self._client.count(name, exact=True).count,
            kind="none (local mode)" if self._is_local else "none" if exact else "HNSW",
            exact=exact or self._is_local,
            settings=str(made.get(_SETTINGS, "")),
        )

    def create(self, address: StoreAddress, dimension: int, settings: str, *, bm25: bool) -> None:
        """Make an empty collection."""
        models, numbers = self._models, address.numbers
        graph = models.HnswConfigDiff(m=0)  # no graph: it would not be used
        if address.kind == "hnsw":
            graph = models.HnswConfigDiff(m=numbers.get("M", 16), ef_construct=numbers.get("efC", 200))
        self._client.create_collection(
            address.collection,
            vectors_config=models.VectorParams(size=dimension, distance=models.Distance.DOT),
            hnsw_config=graph,
            metadata={_KIND: address.kind, _SETTINGS: settings},
        )
        if bm25:
            scoring = models.TextScoringParams(type=models.TextScoringType.BM25)
            schema = models.TextIndexParams(type=models.TextIndexType.TEXT, scoring=scoring)
            self._client.create_payload_index(address.collection, "passage", field_schema=schema)

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Put passages into a collection, in place of earlier ones with the same ids."""
        payloads: list[dict[str, Any]] = [{"docid": row.docid, "fields": row.fields} for row in rows]
        for row, payload in zip(rows, payloads, strict=True):
            payload |= {} if row.passage is None else {"passage": row.passage, "title": row.title}
        vectors = [row.vector.tolist() for row in rows]
        points = self._models.Batch(ids=[row.id for row in rows], vectors=vectors, payloads=payloads)
        # A local client commits every point by itself, and each commit would wait for the disk; a killed process loses
        # nothing without that. A server, or a client of another version, has no such database.
        with contextlib.suppress(AttributeError):
            self._client._client.collections[name].storage.storage.execute("PRAGMA synchronous = OFF")
        self._client.upsert(name, points, wait=True)

    def finish(self, name: str) -> None:
        """Nothing is left to do: each request was answered when its points could be searched."""

    def search(
        self, address: StoreAddress, state: CollectionState, vectors: Floats, k: int, wanted: Filter | None
    ) -> list[list[Row]]:
        """The k hits of each of the vectors [n, d], with their own vectors, among passages that pass the filter."""
        models = self._models
        params, consistency = None, None
        if not self._is_local:
            params = models.SearchParams(exact=state.exact, hnsw_ef=max(k, address.numbers.get("ef", _EF)))
            consistency = models.ReadConsistencyType.ALL
        asked = {"limit": k, "params": params, "with_vector": True, "with_payload": ["docid"]}
        asked["filter"] = wanted.qdrant(models) if wanted else None
        requests = [models.QueryRequest(query=vector.tolist(), **asked) for vector in vectors]
        answers = self._client.query_batch_points(address.collection, requests, consistency=consistency)
        return [[_row(point, score=point.score) for point in answer.points] for answer in answers]

    def words(self, name: str, query: str, k: int, wanted: Filter | None) -> list[Row]:
        """At most k passages that BM25 finds among those that pass the filter."""
        models = self._models
        scoring = models.Bm25Scoring(bm25=models.Bm25Params(**_BM25))
        text = models.TextQuery(text=models.TextQueryInput(query=query, scoring=scoring))
        passing = wanted.qdrant(models) if wanted else None
        options = {"using": "passage", "query_filter": passing, "limit": k, "with_payload": ["docid"]}
        found = self._client.query_points(name, query=text, **options)
        return [_row(point, score=point.score) for point in found.points]

    def passing(self, name: str, ids: Sequence[int], wanted: Filter) -> Sequence[int]:
        """Those of the ids whose passages pass the filter, in any order."""
        models = self._models
        both = models.Filter(must=[models.HasIdCondition(has_id=list(ids)), wanted.qdrant(models)])
        found, _ = self._client.scroll(name, scroll_filter=both, limit=len(ids), with_payload=False)
        return [int(point.id) for point in found]

    def get(self, name: str, ids: Sequence[int], *, what: str) -> list[Row]:
        """Passages by id, in any order."""
        fields = ["docid", "passage", "title"] if what == "passage" else ["docid"]
        points = self._client.retrieve(name, list(ids), with_payload=fields, with_vectors=what == "vector")
        return [_row(point) for point in points]

    def is_temporary(self, error: Exception) -> bool:
        """Whether a request that failed so may succeed when it is repeated."""
        if isinstance(error, self._away.UnexpectedResponse):
            return error.status_code in (408, 429) or (error.status_code or 0) >= 500
        names = ("ResponseHandlingException", "ResourceExhaustedResponse")
        return type(error).__name__ in names or isinstance(error, ConnectionError | TimeoutError)


def _row(point: Any, **values: Any) -> Row:
    vector = None if point.vector is None else np.array(point.vector, dtype=np.float32)
    return Row(int(point.id), **point.payload, vector=vector, **values)


class _PointReader(pickle.Unpickler):
    """Reads a point, and refuses to load anything that a point does not consist of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it would load {module}.{name}")
        return super().find_class(module, name)


def _check_points(folder: Path) -> None:
    """Refuse a local database whose points hold anything but values: the client would run the code in them.

    Raises:
        TourError: if they do, or cannot be read.
    """
    for file in sorted(folder.glob("collection/*/storage.sqlite")):
        try:
            # A path may have # and %, which mean something in an address.
            address = f"{file.resolve().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
                for (point,) in database.execute("SELECT point FROM points"):
                    _PointReader(io.BytesIO(point)).load()
        except Exception as error:  # damaged pickles raise errors of many types
            reason = first_line(error)[:200]
            raise TourError(f"{file} is damaged ({reason}); delete its folder and load again.") from error
