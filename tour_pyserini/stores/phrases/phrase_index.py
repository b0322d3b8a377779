"""Reading a phrase index from its folder."""

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


class PhraseIndex(NamedTuple):
    """Token vectors, with the passage and the offsets of each token.

    Attributes:
        rows: [n] see `ROW`; the tokens of a passage are consecutive rows, in the order of the text.
        vectors: [n, d] float16 or float32, memory-mapped if the index is opened from a folder.
        index: a FAISS index of the same vectors.
        docids: the docid of each passage.
        exact: whether FAISS always finds the nearest vectors.
        largest_norm: the largest norm of a token vector, which bounds the rounding errors of inner products.
    """

    rows: Rows
    vectors: Floats
    index: Any
    docids: Sequence[str]
    exact: bool
    largest_norm: float


def is_phrase_index(folder: str | os.PathLike[str] | None) -> bool:
    """Whether a folder is a phrase index."""
    return folder is not None and (Path(folder) / PHRASE_INDEX).is_file()


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in the record of a phrase index, with the kind of its FAISS index and its size.

    Raises:
        TourError: if the folder is not a phrase index, or its record is damaged.
    """
    path = Path(folder) / PHRASE_INDEX
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {**record["settings"], "index": record["index"], **record["built"]}
    except FileNotFoundError:
        raise TourError(
            f"{folder} is not a phrase index: it has no file `{PHRASE_INDEX}`; build an index with "
            "python -m tour_pyserini.index --phrases."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe a phrase index ({error}); build the index again.") from error


def open_phrase_index(folder: str | os.PathLike[str], *, nprobe: int | None = None) -> PhraseIndex:
    """Open a phrase index; its files are memory-mapped and read only when they are needed.

    Args:
        folder: the folder that `python -m tour_pyserini.index --phrases` wrote.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.

    Raises:
        TourError: if the folder is not a phrase index or damaged, or `nprobe` is given for a flat index.
    """
    import faiss

    settings, folder = read_settings(folder), Path(folder)
    try:
        count, dimension, documents = (int(settings[name]) for name in ("rows", "dimension", "documents"))
        exact, largest_norm = settings["index"]["kind"] == "flat", float(settings["largest_norm"])
        rows = np.memmap(folder / "rows", dtype=ROW, mode="r", shape=(count,))
        vectors = np.memmap(folder / "vectors", dtype=settings["dtype"], mode="r", shape=(count, dimension))
        docids = (folder / "docid").read_text(encoding="utf-8").splitlines()
        # Memory-mapped if this version of FAISS can: an inverted file then reads only the lists that are searched.
        index = faiss.read_index(str(folder / "index"), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise TourError(f"the phrase index {folder} is damaged ({error}); build it again.") from error
    if index.ntotal != count or len(docids) != documents:
        raise TourError(f"the phrase index {folder} is damaged: its files do not fit together; build it again.")
    if nprobe is not None:
        _set_nprobe(index, nprobe, folder)
    return PhraseIndex(rows, vectors, index, docids, exact, largest_norm)


def _set_nprobe(index: Any, nprobe: int, folder: Path) -> None:
    import faiss

    inverted = faiss.try_extract_index_ivf(index)
    if inverted is None:
        raise TourError(f"--nprobe is for inverted files, but the index {folder} is flat; remove --nprobe.")
    inverted.nprobe = nprobe
