"""The vectors of candidates: from the index, from an encoded corpus, or from a function."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.core.pool import Vectors
from tour_pyserini.errors import TourError
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.index_vectors import IndexVectors

log = logging.getLogger(__name__)

_HINT = "name the encoded corpus (--vectors FOLDER), or have passages encoded as they are met (--vectors encode)"


def open_vectors(spec: Any, *, index: Any, docids: Sequence[str]) -> Vectors:
    """A function from positions in the index [m] to vectors [m, d].

    Args:
        spec: None for the index's own vectors; the folder of an encoded corpus (a flat FAISS index, or Pyserini's
            JSON lines); or a function that answers already.
        index: the FAISS index that is searched.
        docids: the docid at each of its positions.
    """
    if spec is None:
        return _from_index(index)
    if isinstance(spec, str | Path):
        return EncodedCorpus.open(Path(spec), docids=docids, dimension=index.d)
    if callable(spec):
        return spec
    raise TourError(f"vectors cannot come from {spec!r}; {_HINT}.")


def _from_index(index: Any) -> Vectors:
    vectors = IndexVectors(index)
    if not vectors.readable:
        raise TourError(f"the index ({vectors.kind}) cannot give its vectors back; {_HINT}.")
    if not vectors.exact:
        log.warning(
            "the index (%s) gives back compressed vectors, and updates are as coarse as they are; %s.",
            vectors.kind,
            _HINT,
        )
    return vectors
