"""Exact vectors from an encoded corpus, for an index that compresses its vectors."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.stores.index_vectors import IndexVectors, VectorLookup
from tour_pyserini.support.files import atomic_replace, cache_home


class EncodedCorpus:
    """Looks up the vectors [m, d] of the documents at positions [m] of an index; the corpus may have another order."""

    def __init__(self, stored_vectors: VectorLookup, rows: Ids) -> None:
        """Use `stored_vectors(rows[i])` for position i of the index."""
        self._stored_vectors, self._rows = stored_vectors, rows

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the documents at these positions."""
        return self._stored_vectors(self._rows[ids])

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
        row_of = {docid: row for row, docid in enumerate(stored_docids)}
        try:
            rows = np.array([row_of[docid] for docid in docids], dtype=np.int64)
        except KeyError as missing:
            raise TourError(
                f"the encoded corpus {folder} has no vector for document {missing} of the index; encode it too."
            ) from None
        return cls(vectors, rows)


def _open_faiss(folder: Path) -> tuple[VectorLookup, list[str], int]:
    """The vectors by row, the docids and the dimension of a flat FAISS index."""
    import faiss

    try:
        index = faiss.read_index(str(folder / "index"))
        docids = (folder / "docid").read_text(encoding="utf-8").split("\n")
    except (OSError, RuntimeError) as error:
        raise TourError(f"cannot read the encoded corpus {folder}: {error}.") from error
    vectors = IndexVectors(index)
    if not (vectors.exact and vectors.readable):
        raise TourError(
            f"the encoded corpus {folder} is compressed too ({vectors.kind}); give the folder of a flat index."
        )
    return vectors, [docid.rstrip() for docid in docids if docid], index.d


def _open_json_lines(files: list[Path]) -> tuple[VectorLookup, list[str], int]:
    """The vectors by row, the docids and the dimension of JSON lines.

    The vectors are converted to a memory-mapped file in the cache folder once, so that they need not fit in memory.
    """
    state = repr([(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files])
    path = cache_home() / "vectors" / hashlib.sha256(state.encode()).hexdigest()[:32]
    if not path.with_suffix(".json").exists():
        docids, dimension = [], 0
        with atomic_replace(path.with_suffix(".f32")) as partial, open(partial, "wb") as out:
            for docid, vector in _records(files):
                dimension = dimension or len(vector)
                if len(vector) != dimension:
                    raise TourError(
                        f"the vector of document {docid!r} in {files[0].parent} has {len(vector)} dimensions, "
                        f"but others have {dimension}; encode the corpus again."
                    )
                docids.append(docid)
                out.write(vector.tobytes())
        with atomic_replace(path.with_suffix(".json")) as partial:
            partial.write_text(json.dumps({"docids": docids, "dimension": dimension}))
    stored = json.loads(path.with_suffix(".json").read_text())
    vectors = np.memmap(path.with_suffix(".f32"), dtype=np.float32, mode="r").reshape(-1, stored["dimension"])
    return lambda rows: np.array(vectors[rows]), stored["docids"], stored["dimension"]


def _records(files: list[Path]) -> Iterator[tuple[str, np.ndarray]]:
    """The docid and vector of each line."""
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                    yield str(record["id"]), np.array(record["vector"], dtype=np.float32)
                except (ValueError, KeyError, TypeError) as error:
                    raise TourError(
                        f"{file}, line {number} is not a JSON object with `id` and `vector` ({error})."
                    ) from error
