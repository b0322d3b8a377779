"""Building a phrase index: encode the tokens of a corpus, build FAISS over their vectors, write the folder."""

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.records import PHRASE_INDEX
from tour_pyserini.data.texts import BeirTexts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import PhraseEncoder, load_phrase_encoder
from tour_pyserini.phrases.phrase_index import ROW, Rows, open_phrase_index, read_settings
from tour_pyserini.stores.faiss_building import ROWS, check_fit, write_index
from tour_pyserini.support.files import atomic_folder, check_folder, content_hash, sha256
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import PartialFolder, whole_lines, write_through

if TYPE_CHECKING:
    from tour_pyserini.index import IndexRequest

CHUNK = 64  # passages that are encoded and saved together
_LIBRARIES = ("faiss-cpu", "torch", "transformers", "numpy")


def build_phrase_index(request: "IndexRequest", corpus: BeirTexts, *, progress: bool = False) -> tuple[int, int]:
    """Encode the tokens of a corpus and build their index; an interrupted run goes on where it was.

    Args:
        request: the encoder, the folder, and the kind of index.
        corpus: the passages.
        progress: whether a bar is shown on a terminal.

    Returns:
        The number of vectors in the index, and the number of documents that an interrupted run had encoded.
    """
    folder, kind, encoder = Path(request.index), request.faiss_kind(), _open_encoder(request)
    settings = phrase_settings(request, corpus, encoder)
    check_fit(sys.maxsize, encoder.dimension, **kind)  # before the corpus is encoded; how many vectors is not known yet
    with PartialTokens(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        # Another process that worked here may have finished the index since the first check.
        check_folder(folder, overwrite=request.overwrite)
        before = partial.done
        if request.vectors is None:
            _encode(request, corpus, encoder, partial, progress=progress)
        else:
            _copy(Path(request.vectors), settings, partial)
        if not partial.count:
            raise TourError(f"no passage of {corpus.path} has a word; there is nothing to index.")
        with atomic_folder(folder, overwrite=request.overwrite) as new:
            _write(new, partial, settings, kind, threads=request.threads)
        count = partial.count
        partial.discard()
    return count, before


def phrase_settings(request: "IndexRequest", corpus: BeirTexts, encoder: PhraseEncoder | None = None) -> dict[str, Any]:
    """Everything that the vectors of a request depend on; its encoder is loaded if it is not given."""
    encoder = encoder or _open_encoder(request)
    read = encoder.settings
    return {
        "corpus_sha256": content_hash(corpus.plain),
        "documents": len(corpus),
        "encoder": request.encoder_location(),
        "encoder_fingerprint": encoder.fingerprint(),
        "titles": "title" in request.fields,
        "max_length": read.max_length,
        "stride": read.stride,
        "filter_threshold": None if math.isinf(read.filter_threshold) else read.filter_threshold,
        "dimension": encoder.dimension,
        "dtype": request.dtype,
        "itemsize": np.dtype(request.dtype).itemsize,
        "chunk": CHUNK,
    }


def _open_encoder(request: "IndexRequest") -> PhraseEncoder:
    changes: dict[str, Any] = {"max_length": request.max_length, "filter_threshold": request.filter_threshold}
    return load_phrase_encoder(request.encoder, device=request.device, **changes)


def _encode(
    request: "IndexRequest", corpus: BeirTexts, encoder: PhraseEncoder, partial: "PartialTokens", *, progress: bool
) -> None:
    from tqdm import tqdm

    documents = islice(corpus.records(), partial.done, None)
    hidden = None if progress else True  # None: a bar on a terminal only
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=hidden) as bar:
        while chunk := list(islice(documents, CHUNK)):
            read = chunk if "title" in request.fields else [document._replace(title="") for document in chunk]
            rows, vectors = encoder.passages(read, first=partial.done, dtype=request.dtype)
            partial.append([document.docid for document in chunk], rows, vectors)
            bar.update(len(chunk))


def _copy(folder: Path, settings: Mapping[str, Any], partial: "PartialTokens") -> None:
    """Use the tokens of an index that was made with the same settings."""
    made = read_settings(folder)
    for name, value in settings.items():
        if made.get(name) != value:
            raise TourError(
                f"the vectors in {folder} were made with another {name}; leave out --vectors, or change it."
            )
    index = open_phrase_index(folder)
    passages = np.ascontiguousarray(index.rows["passage"])
    for start in range(partial.done, len(index.docids), CHUNK):
        first, last = np.searchsorted(passages, [start, start + CHUNK])
        partial.append(index.docids[start : start + CHUNK], index.rows[first:last], index.vectors[first:last])


class PartialTokens(PartialFolder):
    """A folder with the docids of the passages encoded so far and the rows and vectors of their tokens.

    It is written chunk by chunk. Each line of the file `chunks` has the number of passages and of rows at the end of a
    chunk: what the other files have beyond the last line is incomplete.

    Args:
        folder: created if it does not exist.
        settings: everything that the vectors depend on. It must have `dimension`, `dtype` and `itemsize` (bytes of a
            number).

    Attributes:
        done: number of passages so far.
        count: number of rows so far.
    """

    FILES = ("vectors", "rows", "chunks")
    SIZES = ("dimension", "itemsize")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._dimension, self._dtype = int(settings["dimension"]), np.dtype(settings["dtype"])
        self.count = 0
        super().__init__(folder, settings)

    def append(self, docids: Sequence[str], rows: Rows, vectors: Floats) -> None:
        """Add a chunk of passages with all their rows [r] and vectors [r, d]; they are on disk when this returns."""
        write_through(self._files["vectors"], np.ascontiguousarray(vectors).tobytes())
        write_through(self._files["rows"], np.ascontiguousarray(rows).tobytes())
        write_through(self._docids, "".join(f"{docid}\n" for docid in docids).encode())
        self.done += len(docids)
        self.count += len(rows)
        write_through(self._files["chunks"], f"{json.dumps([self.done, self.count])}\n".encode())

    def vectors(self) -> Floats:
        """All vectors so far, [count, d], memory-mapped."""
        return np.memmap(self.folder / "vectors", dtype=self._dtype, mode="r", shape=(self.count, self._dimension))

    def _keep_whole_chunks(self, *, dimension: int, itemsize: int) -> int:  # type: ignore[override]
        lines, docids = whole_lines(self._files["chunks"]), whole_lines(self._docids)
        widths = {"vectors": dimension * itemsize, "rows": ROW.itemsize}
        rows = min(os.fstat(self._files[name].fileno()).st_size // width for name, width in widths.items())
        done = self.count = 0
        while lines:
            done, self.count = json.loads(lines[-1])
            if done <= len(docids) and self.count <= rows:
                break
            lines.pop()
            done = self.count = 0
        self._docids.truncate(sum(map(len, docids[:done])))
        self._files["chunks"].truncate(sum(map(len, lines)))
        for name, width in widths.items():
            self._files[name].truncate(self.count * width)
        return done


def _write(
    folder: Path, partial: PartialTokens, settings: Mapping[str, Any], kind: Mapping[str, Any], *, threads: int | None
) -> None:
    """Write token vectors, rows and docids, a FAISS index of the vectors, and the record to an existing folder."""
    vectors = partial.vectors()
    write_index(vectors, folder / "index", **kind, threads=threads)
    for name in ("vectors", "rows", "docid"):
        try:
            os.link(partial.folder / name, folder / name)  # needs no time and no space
        except OSError:  # a file system without hard links
            shutil.copyfile(partial.folder / name, folder / name)
    blocks = (vectors[start : start + ROWS].astype(np.float32) for start in range(0, len(vectors), ROWS))
    largest_norm = max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
    record = {
        "settings": settings,
        "index": kind,
        "built": {"rows": partial.count, "largest_norm": largest_norm},
        "versions": {name: version_of(name) for name in _LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "vectors", "rows", "docid")},
    }
    (folder / PHRASE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
