"""Vectors of an encoded corpus that lies beside a compressed index."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.stores.index_vectors import IndexVectors
from tour_pyserini.support.files import cache_home, replaced_whole


class EncodedCorpus:
    """Positions [m] in one index to vectors [m, d] stored elsewhere under the same docids."""

    def __init__(self, source: Any, rows: Ids) -> None:
        """Look up position i at `source(rows[i])`."""
        self._source, self._rows = source, rows

    def __call__(self, ids: Ids) -> Floats:
        """The vectors of the documents at these positions."""
        return self._source(self._rows[ids])

    @classmethod
    def open(cls, folder: Path, *, docids: Sequence[str], dimension: int) -> "EncodedCorpus":
        """Open a FAISS index with exact vectors (`index`, `docid`), or Pyserini's encoded JSON lines (`*.jsonl`)."""
        if (folder / "index").is_file():
            source, stored, stored_dimension = _faiss(folder)
        elif files := sorted(folder.glob("*.jsonl")):
            source, stored, stored_dimension = _json_lines(files)
        else:
            raise TourError(f"{folder} holds no encoded corpus: neither a FAISS index nor .jsonl files.")
        if stored_dimension != dimension:
            raise TourError(
                f"the encoded corpus {folder} has {stored_dimension} dimensions and the index {dimension}; "
                "both must come from one encoder."
            )
        places = {docid: place for place, docid in enumerate(stored)}
        try:
            rows = np.array([places[docid] for docid in docids], dtype=np.int64)
        except KeyError as missing:
            raise TourError(
                f"the encoded corpus {folder} has no vector for document {missing}, which the index has."
            ) from None
        return cls(source, rows)


def _faiss(folder: Path) -> tuple[Any, list[str], int]:
    import faiss

    try:
        index = faiss.read_index(str(folder / "index"))
        docids = (folder / "docid").read_text(encoding="utf-8").split("\n")
    except (OSError, RuntimeError) as error:
        raise TourError(f"cannot read the encoded corpus {folder}: {error}.") from error
    vectors = IndexVectors(index)
    if not (vectors.exact and vectors.readable):
        raise TourError(f"the encoded corpus {folder} is compressed itself ({vectors.kind}); name a flat index.")
    return vectors, [docid.rstrip() for docid in docids if docid], index.d


def _json_lines(files: list[Path]) -> tuple[Any, list[str], int]:
    """Vectors as one memory-mapped file, written once and kept: a large corpus need not fit in memory."""
    state = repr([(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files])
    place = cache_home() / "vectors" / hashlib.sha256(state.encode()).hexdigest()[:32]
    if not place.with_suffix(".json").exists():
        docids, dimension = [], 0
        with replaced_whole(place.with_suffix(".f32")) as partial, open(partial, "wb") as out:
            for docid, vector in _records(files):
                dimension = dimension or len(vector)
                if len(vector) != dimension:
                    raise TourError(
                        f"document {docid!r} in {files[0].parent} has {len(vector)} dimensions, not {dimension}."
                    )
                docids.append(docid)
                out.write(vector.tobytes())
        with replaced_whole(place.with_suffix(".json")) as partial:
            partial.write_text(json.dumps({"docids": docids, "dimension": dimension}))
    stored = json.loads(place.with_suffix(".json").read_text())
    vectors = np.memmap(place.with_suffix(".f32"), dtype=np.float32, mode="r").reshape(-1, stored["dimension"])
    return lambda rows: np.array(vectors[rows]), stored["docids"], stored["dimension"]


def _records(files: list[Path]) -> Iterator[tuple[str, np.ndarray]]:
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                    yield str(record["id"]), np.array(record["vector"], dtype=np.float32)
                except (ValueError, KeyError, TypeError) as error:
                    raise TourError(
                        f"{file}, line {number}: not a document with `id` and `vector` ({error})."
                    ) from error
