"""Building a phrase index: encode the tokens of a corpus, build FAISS over their vectors, write the folder."""

import dataclasses
import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.records import PHRASE_INDEX
from tour_pyserini.data.texts import BeirTexts, Document
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import PhraseEncoder, load_phrase_encoder
from tour_pyserini.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.phrases.spans import ROW, Rows
from tour_pyserini.stores.faiss_building import write_faiss_index
from tour_pyserini.support.devices import faiss_threads
from tour_pyserini.support.files import atomic_folder, check_folder, content_hash, sha256
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import PartialFolder, whole_lines, write_through

if TYPE_CHECKING:
    from tour_pyserini.index import IndexRequest

CHUNK = 64  # passages that are encoded and saved together
ROWS_PER_ADD = 65_536  # vectors read from the memory-mapped file at a time
TRAINING_SHARE = 64  # training vectors per centroid, at most; the k-means of FAISS warns below 39
SEED = 7
LIBRARIES = ("faiss-cpu", "torch", "transformers", "numpy")


def build_phrase_index(request: "IndexRequest", corpus: BeirTexts, *, progress: bool = False) -> tuple[int, int]:
    """Encode the tokens of a corpus and build their index; an interrupted run goes on where it was.

    Args:
        request: the encoder, the folder, and the kind of index.
        corpus: the passages.
        progress: whether a bar is shown on a terminal.

    Returns:
        The number of vectors in the index, and the number of documents that an interrupted run had encoded.
    """
    folder, kind = Path(request.index), request.faiss_kind()
    encoder = phrase_index_encoder(request)
    settings = phrase_settings(request, corpus, encoder)
    check_fit(None, encoder.dimension, **kind)
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
            write_phrase_index(new, partial, settings, kind, threads=request.threads)
        count = partial.count
        partial.discard()
    return count, before


def phrase_index_encoder(request: "IndexRequest") -> PhraseEncoder:
    """The encoder, with the request's length and filter threshold."""
    encoder = load_phrase_encoder(request.encoder, device=request.device)
    if request.max_length is not None:
        stride = min(encoder.settings.stride, request.max_length // 2)
        read = dataclasses.replace(encoder.settings, max_length=request.max_length, stride=stride)
        encoder = PhraseEncoder(encoder.model, encoder.tokenizer, read, device=request.device)
    if request.filter_threshold is not None:
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=request.filter_threshold)
    return encoder


def phrase_settings(request: "IndexRequest", corpus: BeirTexts, encoder: PhraseEncoder) -> dict[str, Any]:
    """Everything that the vectors depend on."""
    threshold = encoder.settings.filter_threshold
    return {
        "corpus_sha256": content_hash(corpus.plain),
        "documents": len(corpus),
        "encoder": request.encoder_location(),
        "encoder_fingerprint": encoder.fingerprint(),
        "titles": "title" in request.fields,
        "max_length": encoder.settings.max_length,
        "stride": encoder.settings.stride,
        "filter_threshold": None if math.isinf(threshold) else threshold,
        "dimension": encoder.dimension,
        "dtype": request.dtype,
        "itemsize": np.dtype(request.dtype).itemsize,
        "chunk": CHUNK,
    }


def _encode(
    request: "IndexRequest", corpus: BeirTexts, encoder: PhraseEncoder, partial: "PartialTokens", *, progress: bool
) -> None:
    from tqdm import tqdm

    assert request.dtype is not None
    documents: Iterable[Document] = islice(corpus.records(), partial.done, None)
    if "title" not in request.fields:
        documents = (document._replace(title="") for document in documents)
    hidden = None if progress else True  # None: a bar on a terminal only
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=hidden) as bar:
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK)):
            tokens = encoder.passages(chunk, first=partial.done, dtype=request.dtype)
            rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
            partial.append([document.docid for document in chunk], rows, vectors)
            bar.update(len(chunk))


def _copy(folder: Path, settings: Mapping[str, Any], partial: "PartialTokens") -> None:
    """Use the tokens of an index that was made with the same settings; vectors may be converted to float16."""
    made = read_settings(folder)
    for name, value in settings.items():
        if name not in ("dtype", "itemsize", "chunk") and made.get(name) != value:
            raise TourError(
                f"the vectors in {folder} were made with another {name}; leave out --vectors, or change it."
            )
    if made["itemsize"] < settings["itemsize"]:
        raise TourError(f"the vectors in {folder} are {made['dtype']}; use the same --dtype.")
    index = open_phrase_index(folder)
    passages = np.ascontiguousarray(index.rows["passage"])
    for start in range(partial.done, len(index.docids), CHUNK):
        first, last = np.searchsorted(passages, [start, start + CHUNK])
        vectors = index.vectors[first:last].astype(settings["dtype"])
        partial.append(index.docids[start : start + CHUNK], index.rows[first:last], vectors)


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
        sizes = {name: os.fstat(self._files[name].fileno()).st_size for name in ("vectors", "rows")}
        done = 0
        while lines:
            done, self.count = json.loads(lines[-1])
            needed = {"vectors": self.count * dimension * itemsize, "rows": self.count * ROW.itemsize}
            if len(docids) >= done and all(sizes[name] >= needed[name] for name in needed):
                break
            lines.pop()
            done = self.count = 0
        self._docids.truncate(sum(map(len, docids[:done])))
        self._files["chunks"].truncate(sum(map(len, lines)))
        self._files["vectors"].truncate(self.count * dimension * itemsize)
        self._files["rows"].truncate(self.count * ROW.itemsize)
        return done


def write_phrase_index(
    folder: Path,
    partial: PartialTokens,
    settings: Mapping[str, Any],
    kind: Mapping[str, Any],
    *,
    threads: int | None = None,
) -> None:
    """Write a phrase index: token vectors, rows and docids, a FAISS index of the vectors, and the record.

    Args:
        folder: an existing folder.
        partial: the tokens of all passages.
        settings: everything that the vectors depend on, for the record.
        kind: the keyword arguments of `build_token_index`.
        threads: FAISS uses at most this many; None: its default.
    """
    vectors = partial.vectors()
    with faiss_threads(threads):
        write_faiss_index(build_token_index(vectors, **kind), folder / "index")
    for name in ("vectors", "rows", "docid"):
        try:
            os.link(partial.folder / name, folder / name)  # needs no time and no space
        except OSError:  # a file system without hard links
            shutil.copyfile(partial.folder / name, folder / name)
    record = {
        "settings": settings,
        "index": kind,
        "built": {"rows": partial.count, "largest_norm": _largest_norm(vectors)},
        "versions": {name: version_of(name) for name in LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "vectors", "rows", "docid")},
    }
    (folder / PHRASE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def build_token_index(
    vectors: Floats, *, kind: str = "flat", nlist: int = 256, nprobe: int = 16, pq_m: int = 48, pq_nbits: int = 8
) -> Any:
    """Build a FAISS index of token vectors for inner products; `flat` and `ivf` keep the precision of the vectors.

    Args:
        vectors: float16 or float32 [n, d], in memory or memory-mapped.
        kind: `flat` (exact), `ivf` (inverted file: a query searches some of the lists), `ivfpq` (an inverted file that
            stores compressed vectors).
        nlist: number of lists of an inverted file.
        nprobe: number of lists that a query searches.
        pq_m: number of parts that a vector is cut into; it must divide d.
        pq_nbits: bits of the code of a part.

    Raises:
        TourError: if the settings do not fit the vectors.
    """
    import faiss

    count, dimension = vectors.shape
    check_fit(count, dimension, kind=kind, nlist=nlist, nprobe=nprobe, pq_m=pq_m, pq_nbits=pq_nbits)
    plain = "Flat" if vectors.dtype == np.float32 else "SQfp16"
    name = {"flat": plain, "ivf": f"IVF{nlist},{plain}", "ivfpq": f"IVF{nlist},PQ{pq_m}x{pq_nbits}"}[kind]
    index = faiss.index_factory(dimension, name, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        index.train(_sample(vectors, TRAINING_SHARE * max(nlist, 2**pq_nbits)))
    for start in range(0, count, ROWS_PER_ADD):
        index.add(np.ascontiguousarray(vectors[start : start + ROWS_PER_ADD], dtype=np.float32))
    if kind != "flat":
        faiss.extract_index_ivf(index).nprobe = nprobe
    return index


def check_fit(
    count: int | None,
    dimension: int,
    *,
    kind: str = "flat",
    nlist: int = 256,
    nprobe: int = 16,
    pq_m: int = 48,
    pq_nbits: int = 8,
) -> None:
    """Check the settings of `build_token_index` for `count` vectors (None: not known yet) of `dimension` dimensions.

    Raises:
        TourError: if the settings do not fit the vectors.
    """
    if kind == "flat":
        return
    if nprobe > nlist:
        raise TourError(f"a query cannot search {nprobe} lists of {nlist}; lower --nprobe or raise --nlist.")
    if kind == "ivfpq" and dimension % pq_m:
        raise TourError(f"vectors of {dimension} dimensions cannot be cut into {pq_m} equal parts; change --pq-m.")
    centroids = max(nlist, 2**pq_nbits if kind == "ivfpq" else 0)
    if count is not None and count < centroids:
        raise TourError(
            f"the index has {count} token vectors, and {centroids} centroids need at least as many; "
            "lower --nlist or --pq-nbits, or build a flat index."
        )


def _sample(vectors: Floats, size: int) -> Floats:
    """A random sample of at most `size` vectors, float32; always the same sample for the same number of vectors."""
    if len(vectors) <= size:
        return np.ascontiguousarray(vectors, dtype=np.float32)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), size, replace=False))
    return np.ascontiguousarray(vectors[chosen], dtype=np.float32)


def _largest_norm(vectors: Floats) -> float:
    starts = range(0, len(vectors), ROWS_PER_ADD)
    blocks = (vectors[start : start + ROWS_PER_ADD].astype(np.float32) for start in starts)
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
