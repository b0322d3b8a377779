"""Writing a phrase index: building FAISS over the token vectors, and writing the folder."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.records import PHRASE_INDEX, version_of
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_building import write_faiss_index
from tour_pyserini.stores.phrases.partial_tokens import PartialTokens
from tour_pyserini.support.devices import faiss_threads
from tour_pyserini.support.files import sha256

Kind = Literal["flat", "ivf", "ivfpq"]
ROWS_PER_ADD = 65_536  # vectors read from the memory-mapped file at a time
TRAINING_SHARE = 64  # training vectors per centroid, at most; the k-means of FAISS warns below 39
SEED = 7
LIBRARIES = ("faiss-cpu", "torch", "transformers", "numpy")


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
        _link(partial.folder / name, folder / name)
    record = {
        "settings": settings,
        "index": kind,
        "built": {"rows": partial.count, "largest_norm": _largest_norm(vectors)},
        "versions": {name: version_of(name) for name in LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "vectors", "rows", "docid")},
    }
    (folder / PHRASE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def build_token_index(
    vectors: Floats, *, kind: Kind = "flat", nlist: int = 256, nprobe: int = 16, pq_m: int = 48, pq_nbits: int = 8
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
    kind: Kind = "flat",
    nlist: int = 256,
    nprobe: int = 16,
    pq_m: int = 48,
    pq_nbits: int = 8,
) -> None:
    """Check the settings of `build_token_index` for `count` vectors (None: not known yet) of `dimension` dimensions.

    Raises:
        TourError: if the settings do not fit the vectors.
    """
    if kind not in get_args(Kind):
        raise TourError(f"unknown kind of phrase index {kind!r}; choose one of {', '.join(get_args(Kind))}.")
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


def _link(source: Path, target: Path) -> None:
    """Make a hard link, which needs no time and no space; a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _largest_norm(vectors: Floats) -> float:
    starts = range(0, len(vectors), ROWS_PER_ADD)
    blocks = (vectors[start : start + ROWS_PER_ADD].astype(np.float32) for start in starts)
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
