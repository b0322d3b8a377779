"""An index of token vectors, as its folder holds it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.records import PHRASE_INDEX
from tour_pyserini.data.token_rows import ROW, Rows
from tour_pyserini.errors import TourError

EXACT = {"flat"}


class PhraseIndex(NamedTuple):
    """Token vectors and where the tokens stand.

    Attributes:
        rows: [n] see `ROW`; the tokens of a passage are neighbours, in order.
        vectors: [n, d] float16 or float32, memory-mapped where the index is opened from a folder.
        index: FAISS over the same vectors.
        docids: the passages' ids.
        exact: whether FAISS finds the nearest vectors for certain.
        largest_norm: of a token vector; bounds the rounding of inner products.
    """

    rows: Rows
    vectors: Floats
    index: Any
    docids: Sequence[str]
    exact: bool
    largest_norm: float


def is_phrase_index(folder: str | os.PathLike[str] | None) -> bool:
    """Whether a folder holds an index of phrases."""
    return folder is not None and (Path(folder) / PHRASE_INDEX).is_file()


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """How the index in a folder was made.

    Raises:
        TourError: if the folder holds no phrase index.
    """
    path = Path(folder) / PHRASE_INDEX
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {**record["settings"], "index": record["index"], **record["built"]}
    except FileNotFoundError:
        raise TourError(
            f"{folder} is no phrase index: it has no file `{PHRASE_INDEX}`; build one with "
            "python -m tour_pyserini.index --phrases."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe a phrase index ({error}); build the index again.") from error


def open_phrase_index(folder: str | os.PathLike[str], *, nprobe: int | None = None) -> PhraseIndex:
    """Open the index in a folder; its files are memory-mapped, so that nothing is read before it is needed.

    Args:
        folder: made by `python -m tour_pyserini.index --phrases`.
        nprobe: lists of an inverted file that are looked into; left out, what the index was built with.
    """
    import faiss

    settings, place = read_settings(folder), Path(folder)
    try:
        count, dimension, documents = (int(settings[name]) for name in ("rows", "dimension", "documents"))
        exact, largest_norm = settings["index"]["kind"] in EXACT, float(settings["largest_norm"])
        rows = np.memmap(place / "rows", dtype=ROW, mode="r", shape=(count,))
        vectors = np.memmap(place / "vectors", dtype=settings["dtype"], mode="r", shape=(count, dimension))
        docids = (place / "docid").read_text(encoding="utf-8").splitlines()
        # Memory-mapped where this version of FAISS can: an inverted file then reads the lists it looks into alone.
        index = faiss.read_index(str(place / "index"), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise TourError(f"the phrase index {place} is damaged ({error}); build it again.") from error
    if index.ntotal != count or len(docids) != documents:
        raise TourError(f"the phrase index {place} is damaged: its files do not fit together; build it again.")
    if nprobe is not None:
        _set_nprobe(index, nprobe, place)
    return PhraseIndex(rows, vectors, index, docids, exact, largest_norm)


def _set_nprobe(index: Any, nprobe: int, place: Path) -> None:
    import faiss

    inverted = faiss.try_extract_index_ivf(index)
    if inverted is None:
        raise TourError(f"--nprobe is for inverted files and {place} is flat; leave it out.")
    inverted.nprobe = nprobe
