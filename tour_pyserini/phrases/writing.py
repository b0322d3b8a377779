"""A phrase index's folder from its tokens."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.files import sha256
from tour_pyserini.phrases.building import ADDED_AT_ONCE, build_token_index
from tour_pyserini.phrases.index import FILE
from tour_pyserini.phrases.partial_tokens import PartialTokens
from tour_pyserini.record import version_of
from tour_pyserini.threads import faiss_threads

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
    (folder / FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


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
