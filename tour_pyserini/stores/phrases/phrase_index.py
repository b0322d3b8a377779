"""Reading a phrase index from its folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.lines import read_json_object
from tour_pyserini.data.records import PHRASE_INDEX
from tour_pyserini.data.token_rows import ROW, Rows
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.docids import read_docids
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import check_checksums, read_faiss


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
        record = read_json_object(path)
        return _checked({**record["settings"], "index": record["index"], **record["built"]})
    except FileNotFoundError:
        raise TourError(
            f"{folder} is not a phrase index: it has no file `{PHRASE_INDEX}`; build an index with "
            "python -m tour_pyserini.index --phrases."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(
            f"{path} does not describe a phrase index ({first_line(error)}); build the index again."
        ) from error


def open_phrase_index(folder: str | os.PathLike[str], *, nprobe: int | None = None) -> PhraseIndex:
    """Open a phrase index; its files are memory-mapped and read only when they are needed.

    Args:
        folder: the folder that `python -m tour_pyserini.index --phrases` wrote.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.

    Raises:
        TourError: if the folder is not a phrase index or damaged, or `nprobe` is given for a flat index.
    """
    settings, folder = read_settings(folder), Path(folder)
    count, dimension, documents = (settings[name] for name in ("rows", "dimension", "documents"))
    exact, largest_norm = settings["index"]["kind"] == "flat", float(settings["largest_norm"])
    check_checksums(folder, PHRASE_INDEX, ("index", "docid", "rows", "vectors"))
    try:
        _check_sizes(folder, {"rows": count * ROW.itemsize, "vectors": count * dimension * settings["itemsize"]})
        rows = np.memmap(folder / "rows", dtype=ROW, mode="r", shape=(count,))
        vectors = np.memmap(folder / "vectors", dtype=settings["dtype"], mode="r", shape=(count, dimension))
    except (OSError, ValueError) as error:
        raise TourError(f"the phrase index {folder} is damaged ({first_line(error)}); build it again.") from error
    docids = read_docids(folder / "docid")
    index = read_faiss(folder / "index", mapped=True)
    if index.ntotal != count or index.d != dimension or len(docids) != documents:
        raise TourError(f"the phrase index {folder} is damaged: its files do not fit together; build it again.")
    set_search_effort(index, str(folder), nprobe=nprobe)
    return PhraseIndex(rows, vectors, index, docids, exact, largest_norm)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, if those that are used have their types."""
    for name in ("rows", "dimension", "documents"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**40:
            raise ValueError(f"{name} is not a whole number above 0")
    for name in ("corpus_sha256", "encoder"):
        if not isinstance(settings[name], str):
            raise ValueError(f"{name} is not text")
    if not isinstance(settings["encoder_fingerprint"], str | None):
        raise ValueError("encoder_fingerprint is not text")
    if settings["dtype"] not in ("float16", "float32"):
        raise ValueError("dtype is neither float16 nor float32")
    norm = settings["largest_norm"]
    if isinstance(norm, bool) or not isinstance(norm, int | float) or not 0 <= norm <= 1e30:
        raise ValueError("largest_norm is not a number")
    if not isinstance(settings["index"], dict) or not isinstance(settings["index"].get("kind"), str):
        raise ValueError("it does not have the kind of its FAISS index")
    return {**settings, "itemsize": np.dtype(settings["dtype"]).itemsize}


def _check_sizes(folder: Path, sizes: dict[str, int]) -> None:
    for name, expected in sizes.items():
        size = (folder / name).stat().st_size
        if size != expected:
            raise ValueError(f"{name} has {size} bytes instead of {expected}")
