"""Milvus as an engine: a server or a cluster, or Milvus Lite in this process; the code is the same for both."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.stores.filters import Filter
from tour_pyserini.stores.vector_database import FOREIGN, KEY_VARIABLE, CollectionState, Row, StoreAddress
from tour_pyserini.support.packages import import_optional

_TEXT_BYTES = 65_535  # most bytes of a text field
_KINDS = {"flat": ("FLAT", {}), "hnsw": ("HNSW", {"M": 16, "efC": 200}), "ivf": ("IVF_FLAT", {"nlist": 128})}
_EF, _NPROBE = 128, 16
_NAMES = {"efC": "efConstruction"}
_BM25 = {"bm25_k1": 0.9, "bm25_b": 0.4}  # Pyserini's
_FIELDS = {"docid": ["docid"], "vector": ["docid", "vector"], "passage": ["docid", "passage", "title"]}
_UNAVAILABLE, _NOT_LOADED = 2, 101  # Milvus's own codes
_SETTINGS = "tour_settings"
_CONSISTENCY = {"consistency_level": "Strong"}  # a search sees everything that was written before it


def connect(location: str, timeout: float) -> "_MilvusEngine":
    """Connect to a server, or open the file of Milvus Lite."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it is read when grpc is imported
    pymilvus = import_optional("pymilvus", extra="milvus")
    # It logs every error with its traceback, and raises it too.
    for name in ("pymilvus", "milvus_lite", "grpc._server"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if location.startswith("http"):
        client = pymilvus.MilvusClient(location, token=os.environ.get(KEY_VARIABLE, "").strip(), timeout=timeout)
    else:
        import_optional("milvus_lite", extra="milvus")
        if not location.endswith(".db"):
            raise TourError(f"the file of Milvus Lite must end with .db, and {location} does not; rename it.")
        # Milvus Lite closes connections that are kept alive by pings.
        client = pymilvus.MilvusClient(location, grpc_options={"grpc.keepalive_time_ms": 2**31 - 1})
    return _MilvusEngine(pymilvus, client, timeout, is_lite="milvus_lite" in client.get_server_version())


class _MilvusEngine:
    """A connection to Milvus; see `Engine`."""

    most_hits = 16_384
    most_bytes = 32 << 20  # half of the 64 MiB that a message may have: fields have names and lengths too

    def __init__(self, pymilvus: Any, client: Any, timeout: float, *, is_lite: bool) -> None:
        """Use a MilvusClient of the package pymilvus."""
        self._pymilvus, self._client, self._is_lite = pymilvus, client, is_lite
        self._time = {"timeout": timeout}
        self.close = client.close

    def state(self, name: str) -> CollectionState | None:
        """What is known of a collection; None if it does not exist."""
        if not self._client.has_collection(name, **self._time):
            return None
        found = self._client.describe_collection(name, **self._time)
        vectors = next((field for field in found["fields"] if field["name"] == "vector"), None)
        index = self._client.describe_index(name, "vector", **self._time) if vectors else None
        if vectors is None or not index:
            return FOREIGN
        self._client.load_collection(name, **self._time)
        rows = self._client.query(name, filter="", output_fields=["count(*)"], **_CONSISTENCY, **self._time)
        return CollectionState(
            dimension=int(vectors["params"]["dim"]),
            size=int(rows[0]["count(*)"]),
            kind=index["index_type"],
            exact=index["index_type"] in ("FLAT", "BRUTE_FORCE"),
            settings=found["properties"].get(_SETTINGS, ""),
        )

    def create(self, address: StoreAddress, dimension: int, settings: str, *, bm25: bool) -> None:
        """Make an empty collection."""
        types = self._pymilvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", types.INT64, is_primary=True)
        schema.add_field("docid", types.VARCHAR, max_length=_TEXT_BYTES)
        schema.add_field("vector", types.FLOAT_VECTOR, dim=dimension)
        schema.add_field("fields", types.JSON)
        indexes = self._client.prepare_index_params()
        kind, defaults = _KINDS[address.kind]
        params = {_NAMES.get(name, name): address.numbers.get(name, default) for name, default in defaults.items()}
        indexes.add_index("vector", index_type=kind, metric_type="IP", params=self._params(params))
        if address.texts:
            schema.add_field("passage", types.VARCHAR, max_length=_TEXT_BYTES, enable_analyzer=bm25)
            schema.add_field("title", types.INT64)
        if bm25:
            schema.add_field("words", types.SPARSE_FLOAT_VECTOR)
            kinds = self._pymilvus.FunctionType
            schema.add_function(self._pymilvus.Function("bm25", kinds.BM25, ["passage"], ["words"]))
            indexes.add_index(
                "words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=self._params(_BM25)
            )
        self._client.create_collection(
            address.collection,
            schema=schema,
            index_params=indexes,
            properties={_SETTINGS: settings},
            **_CONSISTENCY,
            **self._time,
        )

    def _params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Settings of an index; Milvus Lite reads them as one object, a server one by one."""
        return {"params": params} if self._is_lite else params

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """Put passages into a collection, in place of earlier ones with the same ids."""
        for row in rows:
            if len((row.passage or "").encode()) > _TEXT_BYTES:
                raise TourError(f"{row.docid!r} has more than {_TEXT_BYTES} bytes, Milvus's limit; load with texts=no.")
        names = ["id", "docid", "vector", "fields", *(["passage", "title"] if rows[0].passage is not None else [])]
        self._client.upsert(name, [{field: getattr(row, field) for field in names} for row in rows], **self._time)

    def finish(self, name: str) -> None:
        """Make everything that was inserted searchable."""
        self._client.flush(name, **self._time)
        self._client.load_collection(name, **self._time)

    def search(
        self, address: StoreAddress, state: CollectionState, vectors: Floats, k: int, wanted: Filter | None
    ) -> list[list[Row]]:
        """The k hits of each of the vectors [n, d], with their own vectors, among passages that pass the filter."""
        params = {}
        if state.kind.startswith("HNSW"):
            params["ef"] = max(k, address.numbers.get("ef", _EF))  # Milvus wants at least k
        elif not state.exact:
            params["nprobe"] = address.numbers.get("nprobe", _NPROBE)
        options = {"anns_field": "vector", "output_fields": _FIELDS["vector"], "search_params": {"params": params}}
        return self._hits(address.collection, list(vectors), k, wanted, options)

    def words(self, name: str, query: str, k: int, wanted: Filter | None) -> list[Row]:
        """At most k passages that BM25 finds among those that pass the filter."""
        (found,) = self._hits(name, [query], k, wanted, {"anns_field": "words", "output_fields": _FIELDS["docid"]})
        return [hit._replace(score=abs(hit.score)) for hit in found]  # Milvus Lite gives them below zero

    def passing(self, name: str, ids: Sequence[int], wanted: Filter) -> Sequence[int]:
        """Those of the ids whose passages pass the filter, in any order."""
        expression = f"id in {list(ids)} and ({wanted.milvus()})"
        options = {"filter": expression, "output_fields": ["id"], **_CONSISTENCY, **self._time}
        return [row["id"] for row in self._loaded(name, lambda: self._client.query(name, **options))]

    def _hits(
        self, name: str, data: list[Any], k: int, wanted: Filter | None, options: dict[str, Any]
    ) -> list[list[Row]]:
        expression = wanted.milvus() if wanted else ""
        options = {"limit": k, "filter": expression, **options, **_CONSISTENCY, **self._time}
        found = self._loaded(name, lambda: self._client.search(name, data=data, **options))
        return [[Row(hit["id"], **_values(hit["entity"]), score=hit["distance"]) for hit in hits] for hits in found]

    def get(self, name: str, ids: Sequence[int], *, what: str) -> list[Row]:
        """Passages by id, in any order."""
        options = {"output_fields": _FIELDS[what], **_CONSISTENCY, **self._time}
        rows = self._loaded(name, lambda: self._client.get(name, list(ids), **options))
        return [Row(row["id"], **_values(row)) for row in rows]

    def is_temporary(self, error: Exception) -> bool:
        """Whether a request that failed so may succeed when it is repeated."""
        grpc = import_optional("grpc", extra="milvus")
        codes = grpc.StatusCode
        code = error.code() if isinstance(error, grpc.RpcError) else getattr(error, "code", None)
        away = (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.ABORTED, codes.CANCELLED, codes.UNKNOWN)
        return code in (*away, _UNAVAILABLE) or isinstance(error, ConnectionError | TimeoutError)

    def _loaded(self, name: str, request: Callable[[], Any]) -> Any:
        """The answer to a request; a server that was started again must load the collection first."""
        try:
            return request()
        except self._pymilvus.MilvusException as error:
            if error.code != _NOT_LOADED:
                raise
        self._client.load_collection(name, **self._time)
        return request()


def _values(entity: Any) -> dict[str, Any]:
    values = {name: entity[name] for name in ("docid", "passage", "title") if name in entity}
    return {**values, "vector": np.array(entity["vector"], dtype=np.float32)} if "vector" in entity else values
