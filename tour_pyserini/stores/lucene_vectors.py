"""A store that is a Lucene index of dense vectors, flat or HNSW, as Anserini makes them and Pyserini offers them.

Lucene's scores become inner products again, and vectors are read back from the index. Where the search compares 8-bit
codes, Lucene keeps the floats beside them: twice the hits are found, and put in the order of these.
"""

import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.pyserini import ensure_java

_EF_SEARCH = 100  # Pyserini's default
_VECTOR, _DOCID = "vector", "id"  # the names that Anserini gives to fields
_FORMAT = "PerFieldKnnVectorsFormat.format"


class LuceneVectors:
    """Searches a Lucene index of vectors; a query's hits do not depend on other queries.

    The position of a document is its number in Lucene.

    Attributes:
        docids: the docid at each position; read from the index when it is asked for.
        dimension: d of the vectors.
        size: how many documents it holds.
        kind: how Lucene stores the vectors, such as `Lucene99HnswVectorsFormat`.
        exact: vectors are as they were added.

    Example:
        store = LuceneVectors.open("indexes/lucene-hnsw", ef_search=200)
        hits = store.search(queries, 10)
    """

    def __init__(self, reader: Any, name: str, *, ef_search: int | None = None) -> None:
        """Search what an `IndexReader` of Lucene's reads.

        Args:
            reader: the reader, an object of Java.
            name: of the index, for messages.
            ef_search: candidates that are looked at in an HNSW graph, where more hits are not asked for; None: 100.

        Raises:
            TourError: if it has no float vectors, ranks by something else than inner products, or has no graph.
        """
        parts = [reader.leaves().get(number) for number in range(reader.leaves().size())]
        # The reader of each segment, and the positions of its first document and of that after its last one.
        self._segments = [(part.reader(), part.docBase, part.docBase + part.reader().maxDoc()) for part in parts]
        fields = (segment.getFieldInfos().fieldInfo(_VECTOR) for segment, *_ in self._segments)
        field = next((found for found in fields if found is not None), None)
        if field is None or field.getVectorDimension() == 0 or field.getVectorEncoding().name() != "FLOAT32":
            raise TourError(f"{name} is a Lucene index without float vectors; if it has words, say --sparse {name}.")
        self._function = field.getVectorSimilarityFunction().name()
        if self._function not in ("DOT_PRODUCT", "MAXIMUM_INNER_PRODUCT"):
            raise TourError(f"the Lucene index {name} ranks by {self._function}, not by inner product; build another.")
        self.name, self.kind, self.exact = name, str(field.getAttribute(_FORMAT)), True
        self.dimension, self.size = int(field.getVectorDimension()), int(reader.maxDoc())
        if ef_search is not None and "Hnsw" not in self.kind:
            raise TourError(f"--ef-search is for HNSW indexes and {name} is {self.kind}; leave it out.")
        self._has_codes = "Quantized" in self.kind
        self._effort = (ef_search or _EF_SEARCH) if "Hnsw" in self.kind else 1
        self._query = _java("org.apache.lucene.search.KnnFloatVectorQuery")
        self._searcher = _java("org.apache.lucene.search.IndexSearcher")(reader)
        self.docids: Sequence[str] = _Docids(self._segments)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, ef_search: int | None = None) -> "LuceneVectors":
        """The store in a folder.

        Raises:
            TourError: if Lucene cannot read it, or it is no index of vectors.
        """
        ensure_java()
        try:
            reader = _java("io.anserini.index.IndexReaderUtils").getReader(os.fspath(folder))
        except Exception as error:  # Java raises errors of many types
            raise TourError(f"cannot open the Lucene index {folder}: {first_line(error)}.") from error
        return cls(reader, os.fspath(folder), ef_search=ef_search)

    @classmethod
    def of_searcher(cls, searcher: Any) -> "LuceneVectors":
        """The index of a LuceneHnswDenseSearcher, with its efSearch, or of a LuceneFlatDenseSearcher."""
        java, effort = searcher.searcher, None
        if "Hnsw" in type(searcher).__name__:
            cast = importlib.import_module("jnius").cast
            effort = cast("io.anserini.search.HnswDenseSearcher$Args", java.args).efSearch
        return cls(java.reader, str(searcher.index_dir), ef_search=effort)

    def search(self, vectors: Floats, k: int, *, threads: int = 1) -> Hits:
        """The k hits of each of the vectors [n, d], best first; of equal ones, the smaller position is first.

        Returns:
            ids and similarities [n, min(k, size)], padded with -1 and minus infinity if fewer were found.
        """
        wanted = min(k, self.size)
        ids = np.full((len(vectors), wanted), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=np.float32)
        for row, vector in enumerate(vectors):
            # Lucene's scores of inner products are for vectors of length 1: below -1 they are cut off, and 8-bit codes
            # of numbers outside the range of the index's own are.
            length = float(np.linalg.norm(vector)) or 1.0
            unit = (np.asarray(vector, dtype=np.float64) / length).tolist()
            most = 2 * wanted if self._has_codes else wanted
            hits = self._searcher.search(self._query(_VECTOR, unit, max(most, self._effort)), most).scoreDocs
            found = np.array([(hit.doc, hit.score) for hit in hits], dtype=np.float64).reshape(-1, 2)
            near, products = found[:, 0].astype(np.int64), length * self._inner_products(found[:, 1])
            if self._has_codes:
                products = self.fetch(near) @ np.asarray(vector, dtype=np.float32)
                order = np.lexsort((near, -products))[:wanted]
                near, products = near[order], products[order]
            ids[row, : len(near)], similarities[row, : len(near)] = near, products
        return Hits(ids, similarities)

    def fetch(self, ids: Ids) -> Floats:
        """The vectors [m, d] at the positions [m], as they were added."""
        wanted, places = np.unique(ids, return_inverse=True)
        rows: list[Any] = []
        for segment, first, end in self._segments:
            inside = wanted[(wanted >= first) & (wanted < end)] - first
            if len(inside):
                rows += _read_vectors(segment.getFloatVectorValues(_VECTOR), inside.tolist())
        return np.array(rows, dtype=np.float32).reshape(-1, self.dimension)[places.reshape(-1)]

    def description(self) -> dict[str, Any]:
        """What the record of a run says of the index."""
        effort = {"efSearch": self._effort} if "Hnsw" in self.kind else {}
        return {"lucene": self.kind, "similarity": self._function, **effort}

    def _inner_products(self, scores: Floats) -> Floats:
        """Inner products from Lucene's scores, which are above 0: the inverse of `VectorSimilarityFunction.compare`."""
        if self._function == "DOT_PRODUCT":
            return 2 * scores - 1
        return np.where(scores >= 1, scores - 1, 1 - 1 / np.maximum(scores, np.finfo(np.float32).tiny))


class _Docids(Sequence[str]):
    """The docids of an index, by position."""

    def __init__(self, segments: Sequence[tuple[Any, int, int]]) -> None:
        self._segments = segments

    def __len__(self) -> int:
        return self._segments[-1][2] if self._segments else 0

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        position = range(len(self))[position]
        segment, first, _ = next(one for one in self._segments if position < one[2])
        values = segment.getBinaryDocValues(_DOCID)
        values.advance(position - first)
        return str(values.binaryValue().utf8ToString())

    def __iter__(self) -> Iterator[str]:
        for segment, first, end in self._segments:
            values = segment.getBinaryDocValues(_DOCID)
            for _ in range(first, end):
                values.nextDoc()
                yield values.binaryValue().utf8ToString()


def _read_vectors(values: Any, documents: list[int]) -> list[list[float]]:
    """The vectors of documents of a segment, in increasing order."""
    rows, is_numbered = [], hasattr(values, "iterator")  # since Lucene 10, vectors have numbers of their own
    places = values.iterator() if is_numbered else values
    for document in documents:
        if places.advance(document) != document:
            raise TourError(f"document {document} of a segment of the Lucene index has no vector; build it again.")
        rows.append(values.vectorValue(places.index()) if is_numbered else values.vectorValue())
    return rows


def _java(name: str) -> Any:
    return importlib.import_module("jnius").autoclass(name)
