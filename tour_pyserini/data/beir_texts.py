"""Passages of a BEIR corpus, read from the file when they are asked for."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tour_pyserini.data import offsets
from tour_pyserini.data.documents import Document, UnknownDocument, parse_document, passage
from tour_pyserini.errors import TourError

BOM = b"\xef\xbb\xbf"
READ_BYTES = 8192


class BeirTexts(Mapping[str, str]):
    """Docid to passage, for a file of one JSON object per line (`_id`, `title`, `text`).

    The file is checked once, line by line, and never held in memory: a look-up reads one line. Look-ups from several
    threads do not disturb each other.

    Example:
        texts = BeirTexts("scifact/corpus.jsonl")
        texts["4983"]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "rb")  # noqa: SIM115 (stays open as long as the texts)
        except OSError as error:
            raise TourError(f"cannot read the corpus {self.path}: {error.strerror}.") from error
        self._offsets = offsets.recall(self.path) or self._scan()
        if not len(self):
            raise TourError(f"the corpus {self.path} holds no document.")

    def __getitem__(self, docid: str) -> str:
        for start in self._offsets.find(docid) if isinstance(docid, str) else ():
            document = self._read(start)
            if document.docid == docid:
                return passage(document.title, document.text)
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
        """Every document and the byte at which its line begins. Blank lines are none."""
        with open(self.path, "rb") as file:
            start = 0
            for number, line in enumerate(file, start=1):
                content = _without_bom(line, start)
                if content.strip():
                    try:
                        document = parse_document(content)
                    except ValueError as error:
                        raise TourError(f"{self.path}, line {number} {error}; correct or remove it.") from None
                    yield start, document
                start += len(line)

    def _scan(self) -> offsets.Offsets:
        found = offsets.collect((document.docid, start) for start, document in self._lines())
        self._refuse_duplicates(found)
        offsets.keep(self.path, found)
        return found

    def _refuse_duplicates(self, found: offsets.Offsets) -> None:
        for starts in found.collisions():
            seen: dict[str, int] = {}
            for start in starts:
                docid = self._read(start).docid
                if docid in seen:
                    first, second = (self._line_number(one) for one in (seen[docid], start))
                    raise TourError(f"{self.path}, line {second} repeats the id {docid!r} of line {first}; remove one.")
                seen[docid] = start

    def _read(self, start: int) -> Document:
        # pread has no position to share, so threads need no lock.
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
            raise TourError(f"{self.path} was changed while in use (byte {start} {error}); start again.") from None

    def _line_number(self, start: int) -> int:
        with open(self.path, "rb") as file:
            position = 0
            for number, line in enumerate(file, start=1):
                if position == start:
                    return number
                position += len(line)
        return 0


def _without_bom(line: bytes, start: int) -> bytes:
    return line.removeprefix(BOM) if start == 0 else line


def corpus_file(path: Path) -> Path | None:
    """The corpus file that a path means: itself, or the `corpus.jsonl` in a folder; None if it is neither."""
    if path.is_file():
        if path.suffix in {".gz", ".zip", ".bz2", ".xz", ".zst"}:
            raise TourError(
                f"{path} is compressed, and passages are read from the middle of the file; unpack it first."
            )
        return path
    inside = path / "corpus.jsonl"
    return inside if inside.is_file() else None
