"""Passages of a BEIR corpus, read from its file one at a time."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.data import offsets
from tour_pyserini.data.documents import Document, Passage, UnknownDocument, parse_document
from tour_pyserini.data.packed_files import PACKED, plain_file
from tour_pyserini.errors import TourError
from tour_pyserini.support.memo import file_state

BOM = b"\xef\xbb\xbf"
READ_BYTES = 8192
BAR_LINES = 10_000  # lines after which the bar moves


class BeirTexts(Mapping[str, str]):
    """Docid to passage, for a file of one JSON object per line (`_id`, `title`, `text`).

    All lines are checked once, when the file is opened. The file is not kept in memory: a look-up reads one line from
    the disk. Several threads may look up passages at the same time. A compressed file is unpacked into the cache folder
    once.

    Attributes:
        path: the file as it was given.
        plain: the same, or its unpacked content.

    Example:
        texts = BeirTexts("scifact/corpus.jsonl")
        texts["4983"]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.plain = plain_file(self.path)
        try:
            self._file = open(self.plain, "rb")  # noqa: SIM115 (closed by __del__)
        except OSError as error:
            raise TourError(f"cannot read the corpus {self.path}: {error.strerror}.") from error
        self._offsets = offsets.load(self.plain) or self._scan()
        if not len(self):
            raise TourError(f"the corpus {self.path} holds no document.")

    def __getitem__(self, docid: str) -> str:
        for start in self._offsets.find(docid) if isinstance(docid, str) else ():
            document = self._read(start)
            if document.docid == docid:
                return Passage(document.title, document.text)
        raise UnknownDocument(docid, self.path)

    def __len__(self) -> int:
        return len(self._offsets.starts)

    def __iter__(self) -> Iterator[str]:
        return (document.docid for document in self.records())

    def __repr__(self) -> str:
        return f"BeirTexts({str(self.path)!r})"

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def records(self) -> Iterator[Document]:
        """All documents (docid, title, text) in the order of the file."""
        return (document for _, document in self._lines())

    def _lines(self) -> Iterator[tuple[int, Document]]:
        """Every document and the offset of its line in bytes; blank lines are skipped."""
        with open(self.plain, "rb") as file:
            start = 0
            for number, line in enumerate(file, start=1):
                content = _without_bom(line, start)
                if content.strip():
                    try:
                        document = parse_document(content)
                    except ValueError as error:
                        raise TourError(f"{self.path}, line {number} {error}; correct or delete it.") from None
                    yield start, document
                start += len(line)

    def _scan(self) -> offsets.Offsets:
        """Check every line, and find where each document begins."""
        from tqdm import tqdm

        state = file_state(self.plain)  # before it is read: a change during the scan must be noticed
        size = state[0]
        # None: a bar on a terminal only.
        hidden = None if size >= offsets.SAVED_FROM_BYTES else True
        with tqdm(total=size, unit="B", unit_scale=True, desc="reading", disable=hidden, dynamic_ncols=True) as bar:
            scanned = offsets.collect(self._documents(bar))
        self._refuse_duplicates(scanned)
        offsets.save(self.plain, scanned, state)
        return scanned

    def _documents(self, bar: Any) -> Iterator[tuple[str, int]]:
        """The docid and the offset of every document; the bar moves to the offset."""
        for count, (start, document) in enumerate(self._lines()):
            yield document.docid, start
            if count % BAR_LINES == 0:
                bar.update(start - bar.n)
        bar.update(bar.total - bar.n)

    def _refuse_duplicates(self, scanned: offsets.Offsets) -> None:
        for starts in scanned.collisions():
            seen: dict[str, int] = {}
            for start in starts:
                docid = self._read(start).docid
                if docid in seen:
                    first, second = self._line_number(seen[docid]), self._line_number(start)
                    raise TourError(
                        f"{self.path}, line {second} repeats the id {docid!r} of line {first}; delete one of them."
                    )
                seen[docid] = start

    def _read(self, start: int) -> Document:
        # Unlike read, pread does not move a shared file position, so threads need no lock.
        line = b""
        while b"\n" not in line:
            more = os.pread(self._file.fileno(), READ_BYTES, start + len(line))
            if not more:
                break
            line += more
        line = line.partition(b"\n")[0]
        try:
            return parse_document(_without_bom(line, start))
        except ValueError as error:
            raise TourError(
                f"{self.path} was changed while in use (the line at byte {start} {error}); start again."
            ) from None

    def _line_number(self, start: int) -> int:
        with open(self.plain, "rb") as file:
            offset = 0
            for number, line in enumerate(file, start=1):
                if offset == start:
                    return number
                offset += len(line)
        return 0


def _without_bom(line: bytes, start: int) -> bytes:
    return line.removeprefix(BOM) if start == 0 else line


def corpus_file(path: Path) -> Path | None:
    """The corpus file at a path: the path itself, or a folder's `corpus.jsonl`, which may be compressed; or None."""
    if path.is_file():
        if path.suffix in {".zip", ".bz2", ".7z"}:
            raise TourError(
                f"{path} is compressed in a way that is not read here ({', '.join(PACKED)} are); unpack it first."
            )
        return path
    inside = (path / f"corpus.jsonl{suffix}" for suffix in ("", *PACKED))
    return next((file for file in inside if file.is_file()), None)
