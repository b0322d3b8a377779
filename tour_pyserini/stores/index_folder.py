"""The folder of an index: its files, docids, checksums, the settings in its record, and the folder while it is built.

`index` is a FAISS index, `docid` has a docid per line; both are Pyserini's. The record says how they were made.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.run_records import LARGEST_CHECKSUMMED, PASSAGE_INDEX
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.support.files import MAPPED_FROM, content_hash

BM25_FOLDER, BM25_RECORD = "bm25", "tour-bm25.json"
"""The part of an index folder that holds its BM25 index, and the record of that."""
CORPUS = "corpus.jsonl"  # in the folder of an index whose collection was changed
_BLOCK = 1 << 18  # docids that are decoded at a time
_NEWLINE, _BLANK, _DELETE = 0x0A, 0x20, 0x7F


class Docids(Sequence[str]):
    """A sequence of docids without white space: their UTF-8 text, and 4 bytes each that say where it ends.

    Example:
        >>> docids = Docids.of(["MED-10", "MED-14"])
        >>> docids[1], len(docids)
        ('MED-14', 2)
    """

    def __init__(self, text: np.ndarray) -> None:
        """Use a buffer uint8, in memory or memory-mapped, of docids with a line end after each."""
        number = np.uint32 if len(text) < 2**32 else np.uint64
        self.text, self.ends = text, np.flatnonzero(text == _NEWLINE).astype(number)

    @classmethod
    def of(cls, docids: Iterable[str]) -> Self:
        """The docids of an iterable, packed."""
        text = "".join(f"{docid}\n" for docid in docids).encode("utf-8", "surrogatepass")
        return cls(np.frombuffer(text, dtype=np.uint8))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the docids of an index, one per line in the order of the vectors; a large file is memory-mapped.

        White space at the end of a line is ignored, as Pyserini ignores it.

        Raises:
            TourError: if a docid is empty, not UTF-8 or has white space in it; the message names the line.
        """
        is_large = path.stat().st_size >= MAPPED_FROM
        text = np.memmap(path, np.uint8, mode="r") if is_large else np.fromfile(path, np.uint8)
        if len(text) and text[-1] != _NEWLINE:
            text = np.append(text, np.uint8(_NEWLINE))
        docids = cls(text)
        # Line ends are the only bytes up to the blank: nothing else of ASCII is white space.
        plain = np.count_nonzero(text <= _BLANK) == len(docids) and text.max(initial=0) <= _DELETE
        has_empty = len(docids) and (docids.ends[0] == 0 or (np.diff(docids.ends) == 1).any())
        return docids if plain and not has_empty else cls.of(_checked_lines(docids, path))

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        number = range(len(self))[position]  # counts from the end if negative; refuses what is outside
        return self.bytes_of(number).decode("utf-8", "surrogatepass")

    def bytes_of(self, position: int) -> bytes:
        """The UTF-8 text of the docid at a position."""
        start = int(self.ends[position - 1]) + 1 if position else 0
        return self.text[start : int(self.ends[position])].tobytes()

    def encoded(self) -> Iterator[bytes]:
        """The UTF-8 text of each docid."""
        start = 0
        for last in range(_BLOCK, len(self) + _BLOCK, _BLOCK):
            end = int(self.ends[min(last, len(self)) - 1])
            yield from self.text[start:end].tobytes().split(b"\n")
            start = end + 1

    def __iter__(self) -> Iterator[str]:
        return (docid.decode("utf-8", "surrogatepass") for docid in self.encoded())

    def __len__(self) -> int:
        return len(self.ends)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Docids):
            return np.array_equal(self.text, other.text)
        return isinstance(other, Sequence) and list(self) == list(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return Docids, (np.array(self.text),)  # without the positions: other processes hash in another way

    @cached_property
    def positions(self) -> "_Positions":
        """The position of each docid; one table for all who ask."""
        return _Positions(self)


class _Positions(Mapping[str, int]):
    """The position of each of many docids, of equal ones the last: a sorted table of hashes, 12 bytes per docid.

    Example:
        >>> positions = Docids.of(["MED-10", "MED-14"]).positions
        >>> positions["MED-14"], positions.get("MED-12")
        (1, None)
    """

    def __init__(self, docids: Docids) -> None:
        """Hash and sort the docids."""
        self.docids = docids
        hashes = np.fromiter(map(hash, docids.encoded()), np.int64, len(docids))  # another process has other hashes
        order = np.argsort(hashes, kind="stable")  # equal hashes are in the order of their positions
        self._hashes, self._order = hashes[order], order.astype(docids.ends.dtype)

    def __getitem__(self, docid: str) -> int:
        if isinstance(docid, str):
            name = docid.encode("utf-8", "surrogatepass")
            # Numbers of a memoryview are Python's, which compare faster than NumPy's.
            wanted, hashes = hash(name), memoryview(self._hashes)  # type: ignore[arg-type]
            at = bisect_right(hashes, wanted) - 1
            while at >= 0 and hashes[at] == wanted:
                position = int(self._order[at])
                if self.docids.bytes_of(position) == name:
                    return position
                at -= 1
        raise KeyError(docid)

    def __len__(self) -> int:
        return len(self.docids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.docids)


def _checked_lines(docids: Docids, path: Path) -> Iterator[str]:
    """The docids without white space at their ends, each of them checked."""
    for number, line in enumerate(docids.encoded(), start=1):
        try:
            docid = line.decode("utf-8").rstrip()
        except UnicodeDecodeError:
            raise TourError(f"{path}, line {number} is not UTF-8; build the index again.") from None
        if docid.split() != [docid]:
            raise TourError(f"{path}, line {number} has no docid without white space; build the index again.")
        yield docid


def has_bm25(index: Path) -> bool:
    """Whether an index folder holds a BM25 index."""
    return (index / BM25_FOLDER / BM25_RECORD).is_file()


def read_index_files(folder: Path) -> tuple[Any, Docids]:
    """The FAISS index and the docids of a folder, compared with the checksums in its record, if it has one.

    Large files are memory-mapped.

    Raises:
        TourError: if a file is damaged, or they do not fit together.
    """
    check_checksums(folder, PASSAGE_INDEX, ("index", "docid"))
    index = read_faiss(folder / "index")
    docids = Docids.read(folder / "docid")
    if len(docids) != index.ntotal:
        raise TourError(f"{folder}: `docid` has {len(docids)} lines for the {index.ntotal} vectors; build it again.")
    return index, docids


def read_faiss(path: Path, *, mapped: bool | None = None) -> Any:
    """Read a FAISS index.

    Args:
        path: the file.
        mapped: memory-map it if this version of FAISS can: it opens at once, processes share its memory, and an
            inverted file reads only the lists that are searched. None: if it is large.

    Raises:
        TourError: if FAISS cannot read it.
    """
    import faiss

    try:
        mapped = path.stat().st_size >= MAPPED_FROM if mapped is None else mapped
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0) if mapped else 0)
    except (OSError, RuntimeError, MemoryError) as error:
        raise TourError(f"{path} cannot be read as a FAISS index ({first_line(error):.200}).") from error


def check_checksums(folder: Path, record: str, names: Iterable[str]) -> None:
    """Compare files with the checksums in the record of their folder, where there are any.

    The checksum of an unchanged file is remembered: see `content_hash`.

    Raises:
        TourError: if a file was changed since the index was built.
    """
    path = folder / record
    if not path.exists():
        return
    try:
        checksums = dict(read_json_object(path).get("sha256", {}))
    except (OSError, ValueError, TypeError) as error:
        raise TourError(f"{path} does not describe an index ({first_line(error)}); build the index again.") from error
    for file in (folder / name for name in names if name in checksums):
        if file.is_file() and file.stat().st_size <= LARGEST_CHECKSUMMED and content_hash(file) != checksums[file.name]:
            raise TourError(f"{file} does not have its checksum in {record}: it was changed; build the index again.")


class IndexSettings(NamedTuple):
    """The encoder of an index, and the options of `python -m tour_pyserini.index` that change its vectors.

    Queries, and exact vectors of passages, must come from the same encoder.

    Attributes:
        encoder: a folder, or a name.
        fingerprint: of the encoder.
        encoder_class: Pyserini's name of the class; None if the encoder was run as its own files say.
        pooling: how the vectors of tokens were pooled.
        l2_norm: whether vectors have norm 1.
        prefix: what was put before each document instead of the model's own prompt.
        max_length: tokens of a document that were read.
        fields: what was encoded of a document.
        asked: `pooling`, `l2_norm` and `truncate_dim`, as far as they were asked for.
        truncate_dim: dimensions that were kept of each vector, if they were cut.
        precision: `fp32` or `int8`.
    """

    encoder: str
    fingerprint: str
    encoder_class: str | None
    pooling: Any
    l2_norm: bool | None
    prefix: str | None
    max_length: int | None
    fields: Sequence[str]
    asked: Mapping[str, Any]
    truncate_dim: int | None = None
    precision: str | None = None

    @classmethod
    def read(cls, index: str | os.PathLike[str]) -> Self | None:
        """The settings in the record of an index folder or a collection; None for other programs' indexes."""
        path, address = Path(index) / PASSAGE_INDEX, store_address(index)
        if address:
            from tour_pyserini.stores.vector_collection import CollectionStore

            stored = CollectionStore.open(address).settings
        elif path.is_file():
            stored = read_json_object(path).get("settings", {})
        else:
            return None
        try:
            known = {name: stored[name] for name in cls._fields if name in stored}
            return cls(**known, fingerprint=stored["encoder_fingerprint"])
        except (KeyError, TypeError) as error:
            raise TourError(f"{address or path} does not describe an index; build the index again.") from error


def check_vectors(index: str | os.PathLike[str], vectors: str) -> None:
    """Check that the vectors for an index come from the encoder of the index, if both have a record.

    Raises:
        TourError: if they come from different encoders.
    """
    searched, stored = IndexSettings.read(index), IndexSettings.read(vectors)
    if searched and stored and searched.fingerprint != stored.fingerprint:
        encoders = f"{vectors} comes from {stored.encoder} and {index} from {searched.encoder}"
        raise TourError(f"{encoders}; both must come from the same encoder.")
