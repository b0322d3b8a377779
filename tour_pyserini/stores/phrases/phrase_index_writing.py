"""Writing a phrase index: its FAISS index over tokens, and its folder."""

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
from tour_pyserini.stores.phrases.partial_tokens import PartialTokens
from tour_pyserini.support.devices import faiss_threads
from tour_pyserini.support.files import sha256

Kind = Literal["flat", "ivf", "ivfpq"]
ADDED_AT_ONCE = 65_536  # rows read from the memory-mapped file
TRAINED_ON = 64  # vectors per list, at most; FAISS's k-means asks for 39 at least
SEED = 7


def build_token_index(
    vectors: Floats, *, kind: Kind = "flat", nlist: int = 256, nprobe: int = 16, pq_m: int = 48, pq_nbits: int = 8
) -> Any:
    """An inner-product index over the vectors, which it keeps in their own precision unless it quantises them.

    Args:
        vectors: float16 or float32 [n, d], in memory or memory-mapped.
        kind: `flat` (exact), `ivf` (looks into some of the lists alone), `ivfpq` (and keeps codes, not vectors).
        nlist: lists of an inverted file.
        nprobe: lists that a search looks into.
        pq_m: parts into which a vector is cut for its code.
        pq_nbits: bits of each part.

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
        index.train(_sample(vectors, TRAINED_ON * max(nlist, 2**pq_nbits)))
    for start in range(0, count, ADDED_AT_ONCE):
        index.add(np.ascontiguousarray(vectors[start : start + ADDED_AT_ONCE], dtype=np.float32))
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
    """Refuse settings that do not fit `count` vectors (None: not known yet) of `dimension` dimensions."""
    if kind not in get_args(Kind):
        raise TourError(f"there is no kind {kind!r} of phrase index; choose one of {', '.join(get_args(Kind))}.")
    if kind == "flat":
        return
    if nprobe > nlist:
        raise TourError(f"of {nlist} lists no search can look into {nprobe}; lower --nprobe or raise --nlist.")
    if kind == "ivfpq" and dimension % pq_m:
        raise TourError(f"vectors of {dimension} dimensions cannot be cut into {pq_m} equal parts; change --pq-m.")
    fewest = max(nlist, 2**pq_nbits if kind == "ivfpq" else 0)
    if count is not None and count < fewest:
        raise TourError(
            f"the index has {count} token vectors, and {fewest} centroids need at least as many; "
            "lower --nlist or --pq-nbits, or build it flat."
        )


def _sample(vectors: Floats, size: int) -> Floats:
    """At most `size` vectors, the same ones every time, float32; all of them where there are no more."""
    if len(vectors) <= size:
        return np.ascontiguousarray(vectors, dtype=np.float32)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), size, replace=False))
    return np.ascontiguousarray(vectors[chosen], dtype=np.float32)


LIBRARIES = ("faiss-cpu", "torch", "transformers", "numpy")


def write_phrase_index(
    folder: Path,
    partial: PartialTokens,
    settings: Mapping[str, Any],
    kind: Mapping[str, Any],
    *,
    threads: int | None = None,
) -> None:
    """Write the token vectors and their rows, FAISS over them, and beside them how they came about.

    Args:
        folder: where to; it is there.
        partial: all tokens.
        settings: what the vectors depend on.
        kind: the kind of index with its settings, as `build_token_index` takes them.
        threads: of FAISS at most; left out, as many as it takes.
    """
    import faiss

    vectors = partial.vectors()
    with faiss_threads(threads):
        faiss.write_index(build_token_index(vectors, **kind), str(folder / "index"))
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


def _link(source: Path, place: Path) -> None:
    """The same file under another name, which takes no time and no room; a copy where that cannot be."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _largest_norm(vectors: Floats) -> float:
    starts = range(0, len(vectors), ADDED_AT_ONCE)
    blocks = (vectors[start : start + ADDED_AT_ONCE].astype(np.float32) for start in starts)
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
