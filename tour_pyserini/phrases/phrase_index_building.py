"""Building a phrase index: encode the tokens of a corpus, build FAISS over their vectors, write the folder."""

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.run_records import PHRASE_INDEX
from tour_pyserini.data.texts import BeirTexts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import PhraseEncoder, load_phrase_encoder
from tour_pyserini.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.stores.faiss_building import ROWS, check_fit, write_index
from tour_pyserini.support.files import atomic_folder, check_folder, content_hash, sha256
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import PartialFolder

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
    from tqdm import tqdm

    folder, kind, encoder = Path(request.index), request.faiss_kind(), _open_encoder(request)
    settings = phrase_settings(request, corpus, encoder)
    check_fit(sys.maxsize, encoder.dimension, **kind)  # before the corpus is encoded; how many vectors is not known yet
    if request.vectors is not None:
        made = read_settings(request.vectors)
        if other := [name for name, value in settings.items() if made.get(name) != value]:
            raise TourError(f"the vectors in {request.vectors} were made with another {other[0]}; leave out --vectors.")
        index = open_phrase_index(request.vectors)
        return _write(request, Path(request.vectors), settings, index.vectors, kind), 0
    with PartialFolder(folder.with_name(f"{folder.name}.partial"), settings, "vectors", "rows") as partial:
        check_folder(folder, overwrite=request.overwrite)  # another process may have just written it
        before, documents = partial.done, islice(corpus.records(), partial.done, None)
        hidden = None if progress else True  # None: a bar on a terminal only
        with tqdm(total=len(corpus), initial=before, unit="doc", desc="encoding", disable=hidden) as bar:
            while chunk := list(islice(documents, CHUNK)):
                read = chunk if settings["titles"] else [document._replace(title="") for document in chunk]
                rows, vectors = encoder.passages(read, first=partial.done, dtype=request.dtype)
                partial.append([document.docid for document in chunk], vectors=vectors, rows=rows)
                bar.update(len(chunk))
        if not (partial.folder / "rows").stat().st_size:
            raise TourError(f"no passage of {corpus.path} has a word; there is nothing to index.")
        vectors = partial.array("vectors", request.dtype, encoder.dimension)
        count = _write(request, partial.folder, settings, vectors, kind)
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
        "chunk": CHUNK,
    }


def _open_encoder(request: "IndexRequest") -> PhraseEncoder:
    changes: dict[str, Any] = {"max_length": request.max_length, "filter_threshold": request.filter_threshold}
    return load_phrase_encoder(request.encoder, device=request.device, **changes)


def _write(
    request: "IndexRequest", source: Path, settings: Mapping[str, Any], vectors: Floats, kind: Mapping[str, Any]
) -> int:
    """Make the index of token vectors [n, d], which are in a folder with their rows and docids; returns n."""
    with atomic_folder(Path(request.index), overwrite=request.overwrite) as folder:
        write_index(vectors, folder / "index", **kind, threads=request.threads)
        for name in ("vectors", "rows", "docid"):
            try:
                os.link(source / name, folder / name)  # needs no time and no space
            except OSError:  # a file system without hard links
                shutil.copyfile(source / name, folder / name)
        blocks = (vectors[start : start + ROWS].astype(np.float32) for start in range(0, len(vectors), ROWS))
        largest_norm = max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
        record = {
            "settings": settings,
            "index": kind,
            "built": {"rows": len(vectors), "largest_norm": largest_norm},
            "versions": {name: version_of(name) for name in _LIBRARIES},
            "sha256": {name: sha256(folder / name) for name in ("index", "vectors", "rows", "docid")},
        }
        (folder / PHRASE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return len(vectors)
