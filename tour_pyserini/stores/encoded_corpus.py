"""Exact vectors from an encoded corpus, for an index that compresses its vectors."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.input_files import Line, json_object, read_json_object, read_lines
from tour_pyserini.data.records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.stores.docids import Docids, as_docids, read_docids
from tour_pyserini.stores.index_files import read_index_files
from tour_pyserini.stores.index_vectors import IndexVectors, VectorLookup
from tour_pyserini.stores.positions import Positions
from tour_pyserini.support.files import atomic_write, cache_home


class EncodedCorpus:
    """Looks up the vectors [m, d] of the documents at positions [m] of an index; the corpus may have another order."""

    def __init__(self, stored_vectors: VectorLookup, rows: Ids | None = None) -> None:
        """Use `stored_vectors(rows[i])` for position i of the index; without rows, both have the same order."""
        self._stored_vectors, self._rows = stored_vectors, rows

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the documents at these positions."""
        return self._stored_vectors(ids if self._rows is None else self._rows[ids])

    @classmethod
    def open(cls, folder: Path, *, docids: Sequence[str], dimension: int) -> "EncodedCorpus":
        """Open a folder with a flat FAISS index (`index`, `docid`), or with Pyserini's encoded JSON lines (`*.jsonl`).

        Args:
            folder: the encoded corpus.
            docids: the docid at each position of the index that is searched; each needs a vector.
            dimension: d of that index.

        Raises:
            TourError: if the folder is not an encoded corpus, or does not fit the index.
        """
        if (folder / "index").is_file():
            vectors, stored_docids, stored_dimension = _open_faiss(folder)
        elif files := sorted(folder.glob("*.jsonl")):
            vectors, stored_docids, stored_dimension = _open_json_lines(files)
        else:
            raise TourError(f"{folder} is not an encoded corpus: it has neither a FAISS index nor .jsonl files.")
        if stored_dimension != dimension:
            raise TourError(
                f"the encoded corpus {folder} has {stored_dimension} dimensions and the index {dimension}; "
                "both must come from the same encoder."
            )
        wanted = as_docids(docids)
        if wanted == stored_docids:
            return cls(vectors)
        rows = Positions(stored_docids).find(wanted)
        if (rows < 0).any():
            missing = wanted[int((rows < 0).argmax())]
            raise TourError(
                f"the encoded corpus {folder} has no vector for document {missing!r} of the index; encode it too."
            )
        return cls(vectors, rows)


def _open_faiss(folder: Path) -> tuple[VectorLookup, Docids, int]:
    """The vectors by row, the docids and the dimension of a flat FAISS index."""
    index, docids = read_index_files(folder, PASSAGE_INDEX)
    vectors = IndexVectors(index)
    if not (vectors.exact and vectors.readable):
        raise TourError(
            f"the encoded corpus {folder} is compressed too ({vectors.kind}); give the folder of a flat index."
        )
    return vectors, docids, index.d


def _open_json_lines(files: list[Path]) -> tuple[VectorLookup, Docids, int]:
    """The vectors by row, the docids and the dimension of JSON lines.

    Both are converted to memory-mapped files in the cache folder once, so that they need not fit in memory.
    """
    state = repr([(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files])
    path = cache_home() / "vectors" / hashlib.sha256(state.encode()).hexdigest()[:32]
    docids, dimension = _converted(path) or _convert(files, path)
    vectors = np.memmap(path.with_suffix(".f32"), dtype=np.float32, mode="r").reshape(-1, dimension)
    return lambda rows: np.array(vectors[rows]), docids, dimension


def _converted(path: Path) -> tuple[Docids, int] | None:
    """The docids and the dimension of vectors that were converted before; None if there are none, or not all."""
    try:
        stored = read_json_object(path.with_suffix(".json"))
        docids, dimension = read_docids(path.with_suffix(".docid")), stored["dimension"]
        whole = path.with_suffix(".f32").stat().st_size == 4 * dimension * len(docids) > 0
        return (docids, dimension) if whole and len(docids) == stored["documents"] else None
    except (TourError, OSError, ValueError, KeyError, TypeError):
        return None


def _convert(files: list[Path], path: Path) -> tuple[Docids, int]:
    documents = dimension = 0
    with atomic_write(path.with_suffix(".f32"), "wb") as out, atomic_write(path.with_suffix(".docid")) as names:
        for line, docid, vector in _records(files):
            dimension = dimension or len(vector)
            if len(vector) != dimension:
                line.refuse(
                    f"has {len(vector)} dimensions, but the first line has {dimension}; encode the corpus again"
                )
            try:
                names.write(f"{docid}\n")
            except UnicodeEncodeError:
                line.refuse(f"has half a surrogate pair in the id {docid!r}, which cannot be written as UTF-8")
            out.write(vector.tobytes())
            documents += 1
        if not documents:
            raise TourError(f"the encoded corpus {files[0].parent} has no vectors; encode the corpus again.")
    with atomic_write(path.with_suffix(".json")) as file:
        json.dump({"documents": documents, "dimension": dimension}, file)
    return read_docids(path.with_suffix(".docid")), dimension


def _records(files: list[Path]) -> Iterator[tuple[Line, str, Floats]]:
    """The location, docid and vector of each line."""
    for file in files:
        for line in read_lines(file):
            record = json_object(line)
            docid, values = record.get("id"), record.get("vector")
            if isinstance(docid, bool) or not isinstance(docid, str | int) or str(docid).split() != [str(docid)]:
                line.refuse("has no `id` without white space")
            try:
                vector = np.array(values if isinstance(values, list) else None, dtype=np.float64).astype(np.float32)
            except (ValueError, TypeError, OverflowError):
                vector = np.empty(0, dtype=np.float32)
            if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
                line.refuse("has no `vector`: a list of finite numbers")
            yield line, str(docid), vector
