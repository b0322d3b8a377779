"""Reading the files of an index folder, after a check that they are whole."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tour_pyserini.data.lines import read_json_object
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.docids import Docids, read_docids
from tour_pyserini.stores.faiss_layout import LAYOUT_VERSION, UnknownLayoutError, check_layout
from tour_pyserini.stores.faiss_trial import try_reading
from tour_pyserini.support.files import MAPPED_FROM
from tour_pyserini.support.memo import check_once, content_hash

log = logging.getLogger(__name__)

LARGEST_CHECKED = 4 << 30
"""Bytes; larger files are not compared with their checksum: computing it would take longer than many searches."""


def read_index_files(folder: Path, record: str) -> tuple[Any, Docids]:
    """The FAISS index and the docids of a folder; large files are memory-mapped.

    Args:
        folder: has the files `index` and `docid`.
        record: name of the record in the folder, whose checksums are compared if it is there.

    Raises:
        TourError: if a file is damaged, or they do not fit together.
    """
    check_checksums(folder, record, ("index", "docid"))
    index = read_faiss(folder / "index")
    docids = read_docids(folder / "docid")
    if len(docids) != index.ntotal:
        raise TourError(
            f"{folder} is damaged: `docid` has {len(docids)} lines for the {index.ntotal} vectors of `index`; "
            "build it again."
        )
    return index, docids


def read_faiss(path: Path, *, mapped: bool | None = None) -> Any:
    """Read a FAISS index, once its layout has been checked; that it was right is remembered until the file changes.

    An index of a kind whose layout is not known (FastScan, residual quantizers, NSG, ...) is read and searched in a
    process with limits first, and here only if that process did not fail.

    Args:
        path: the file.
        mapped: memory-map it if this version of FAISS can: it opens at once, processes share its memory, and an
            inverted file reads only the lists that are searched. None: if it is large.

    Raises:
        TourError: if it is not a FAISS index, or damaged.
    """
    import faiss

    def check(path: Path) -> None:
        try:
            check_layout(path)
        except UnknownLayoutError as error:
            log.warning("%s: %s; it is first read on trial by another process", path, error)
            try_reading(path, flags)

    try:
        mapped = path.stat().st_size >= MAPPED_FROM if mapped is None else mapped
        flags = getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0
        check_once("faiss", path, check, version=LAYOUT_VERSION)
        return faiss.read_index(str(path), flags)
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror or first_line(error)}.") from error
    except (ValueError, RuntimeError, MemoryError) as error:
        reason = first_line(error) if isinstance(error, ValueError) else "FAISS refuses it"
        raise TourError(f"{path} cannot be read as a FAISS index: {reason}; build it again.") from error


def check_checksums(folder: Path, record: str, names: Iterable[str]) -> None:
    """Compare files with the checksums in the record of their folder, where there are any.

    The checksum of an unchanged file is remembered: see `content_hash`.

    Raises:
        TourError: if a file was changed since the index was built.
    """
    path = folder / record
    if not os.path.lexists(path):
        return
    if not path.is_file():
        raise TourError(f"{path} is not a file that describes an index; build the index again.")
    try:
        checksums = read_json_object(path).get("sha256", {})
    except (OSError, ValueError) as error:
        raise TourError(f"{path} does not describe an index ({first_line(error)}); build the index again.") from error
    for name in names:
        known = checksums.get(name) if isinstance(checksums, dict) else None
        file = folder / name
        if known is None or not file.is_file() or file.stat().st_size > LARGEST_CHECKED:
            continue
        if content_hash(file) != known:
            raise TourError(
                f"{file} is damaged or was changed since the index was built: it does not have the checksum in "
                f"{record}; build the index again."
            )
