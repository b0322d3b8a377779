"""Passages by docid: of a BEIR corpus, read from its file one at a time, or of a Pyserini Lucene index."""

import csv
import hashlib
import importlib
import json
import logging
import os
import threading
import zipfile
from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.data.input_files import IRDS, PACKED, first_field, json_lines_files, plain_file
from tour_pyserini.data.irds import data_set, irds_corpus, irds_document
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, cache_home, file_state
from tour_pyserini.support.pyserini import ensure_java, may_know, open_prebuilt

log = logging.getLogger(__name__)

_ID_FIELDS = ("_id", "id", "docid", "pid")
_TEXT_FIELDS = ("text", "contents", "body", "passage")  # the last two: MS MARCO v2
_READ = {*_ID_FIELDS, *_TEXT_FIELDS, "title"}
_BOM = b"\xef\xbb\xbf"
_DPR_HEADER = b"id\ttext\ttitle"
_READ_BYTES = 8192
# The offsets of smaller files are not saved: scanning such a file takes no noticeable time.
_SAVED_FROM_BYTES = 64 * 2**20


class Document(NamedTuple):
    """A document of a corpus; title and text may be empty.

    Attributes:
        docid: its id.
        title: its title.
        text: its text.
        fields: what its line says beside these, for filters; what is under `metadata` counts as the line's own.
    """

    docid: str
    title: str
    text: str
    fields: Mapping[str, Any] = {}

    def only(self, fields: Collection[str]) -> "Document":
        """The document with the given fields (`title`, `text`), without white space around them; others are empty.

        Example:
            Document("a", "Title", " text ").only(["text"])  # Document("a", "", "text")
        """
        title, text = self.title if "title" in fields else "", self.text if "text" in fields else ""
        return Document(self.docid, title.strip(), text.strip())


def _parse_document(line: bytes, layout: str) -> Document:
    """Parse one line of a corpus file in UTF-8, with or without a byte order mark and its line end.

    Args:
        line: the line.
        layout: `json`; `tsv`, an id and a text; or `dpr`, an id, a text and a title as a CSV writer quotes them.

    Raises:
        ValueError: the reason, such as "is not JSON"; the caller adds file and line.
    """
    line = line.removeprefix(_BOM)
    if layout == "dpr":
        columns = next(csv.reader([line.decode("utf-8").rstrip("\r\n")], delimiter="\t"))
        if len(columns) != 3 or not columns[0].strip():
            raise ValueError("is not an id, a text and a title, with tabs between them")
        docid, text, title = map(str.strip, columns)
        return Document(docid, title, text)
    if layout == "tsv":
        docid, tab, text = line.decode("utf-8").partition("\t")
        if not tab or not docid.strip():
            raise ValueError("is not an id, a tab and a text")
        return Document(docid.strip(), "", text.strip())
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON in UTF-8 ({first_line(error)})") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    docid, text = first_field(record, _ID_FIELDS), first_field(record, _TEXT_FIELDS)
    if not isinstance(docid, str | int) or docid == "":
        raise ValueError(f"has no id (expected one of {', '.join(_ID_FIELDS)})")
    if not isinstance(text, str):
        raise ValueError(f"has no text (expected one of {', '.join(_TEXT_FIELDS)})")
    metadata = record.pop("metadata", None)
    fields = {name: value for name, value in record.items() if name not in _READ}
    fields |= metadata if isinstance(metadata, dict) else {}
    parts = str(docid), str(record.get("title") or ""), text
    # JSON can contain half of an escaped surrogate pair, which tokenizers refuse. Other lines skip the slow repair.
    docid, title, text = map(_without_half_pairs, parts) if b"\\ud" in line.lower() else parts
    return Document(docid, title, text, fields)


def _without_half_pairs(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Passage(str):
    """The title, a space and the text of a document; if one of the two is empty, only the other.

    It is a string that also remembers where the title ends, for models that read title and text separately.

    Example:
        >>> passage = Passage("Nobel Prize", "It was first awarded in 1901.")
        >>> passage
        'Nobel Prize It was first awarded in 1901.'
        >>> passage.parts
        ('Nobel Prize', 'It was first awarded in 1901.')
    """

    __slots__ = ("_end",)
    _end: int

    def __new__(cls, title: str, text: str, between: str = " ") -> Self:
        """Join title and text with the one character `between`."""
        self = super().__new__(cls, f"{title}{between}{text}" if title and text else title or text)
        self._end = len(title)
        return self

    @property
    def parts(self) -> tuple[str, str]:
        """Title and text; either may be empty."""
        return self[: self._end], self[self._end + bool(self._end) :]

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """Arguments that make a copy; copy and pickle use them."""
        return *self.parts, self[self._end : self._end + 1]


def one_line_parts(passage: str) -> tuple[str, str]:
    """Split a passage into title and text, each without line breaks; a plain string has no title.

    Pyserini's evaluation expects `title`, a line break and `text`, and ignores everything after a second line break.
    """
    title, text = passage.parts if isinstance(passage, Passage) else ("", str(passage))
    return title.replace("\n", " "), text.replace("\n", " ")


def first_words(text: str, length: int) -> str:
    """The first words of a passage, in at most `length` characters; "..." stands for the others.

    Example:
        >>> first_words("Rack and rope lines of the Hollin range", 20)
        'Rack and rope ...'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3].rsplit(" ", 1)[0] + " ..."


class UnknownDocument(TourError, KeyError):
    """A document is not in the corpus.

    It is a KeyError too, because `in` and `get` of a Mapping need one.
    """

    def __init__(self, docid: str, corpus: object) -> None:
        super().__init__(
            f"document {docid!r} is not in {corpus}; the index and the corpus must come from the same collection."
        )

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0])


def read_text(texts: Mapping[str, str], docid: str) -> str:
    """The passage of a document.

    Raises:
        UnknownDocument: if there is none.
    """
    try:
        return texts[docid]
    except UnknownDocument:
        raise  # it names the file
    except KeyError:
        raise UnknownDocument(docid, "the given texts") from None


def open_texts(spec: Mapping[str, str] | str | os.PathLike[str]) -> Mapping[str, str]:
    """Open a mapping from docid to passage text.

    Args:
        spec: a mapping (returned unchanged); the path of a BEIR `corpus.jsonl`, of the folder that contains it, of a
            folder of `.jsonl` files, or of a `.tsv` file of ids and texts; the folder of a Pyserini Lucene index that
            stores its documents; the name of a prebuilt Lucene index; or that of a data set of ir_datasets,
            `irds:beir/scifact`.

    Example:
        texts = open_texts("collections/scifact")
        texts["4983"]
    """
    if isinstance(spec, Mapping):
        return spec
    if str(spec).startswith(IRDS):
        return _IrdsTexts(str(spec))
    if file := corpus_file(Path(spec)):
        return BeirTexts(file)
    check_texts(spec)
    return LuceneTexts(open_lucene(os.fspath(spec)), os.fspath(spec))


def is_lucene_index(folder: Path) -> bool:
    """Whether a folder holds a Lucene index."""
    return any(folder.glob("segments_*"))


def check_texts(spec: str | os.PathLike[str]) -> None:
    """Refuse a corpus that does not exist, without opening it and without importing Pyserini.

    Args:
        spec: a path or a name, as in `open_texts`.
    """
    path = Path(spec)
    if str(spec).startswith(IRDS):
        return  # the data set may have to be downloaded
    if path.is_dir() and not corpus_file(path) and not is_lucene_index(path):
        raise TourError(f"{path} contains neither .jsonl files nor a Lucene index; give another folder or a file.")
    if path.exists():
        return
    # Something that looks like a path is not sent to Pyserini, whose error message would be about a failed download.
    is_path = isinstance(spec, os.PathLike) or path.is_absolute() or path.suffix in {".jsonl", ".json", ".tsv", *PACKED}
    if is_path or not may_know(str(spec)):
        raise _not_found(str(spec))


class BeirTexts(Mapping[str, str]):
    """Docid to passage, for a file of one JSON object (`_id`, `title`, `text`) or of one `docid<TAB>text` per line.

    A `.tsv` that begins with the header `id`, `text`, `title` is DPR's Wikipedia (`psgs_w100.tsv`).

    All lines are checked once, when the file is opened. The file is not kept in memory: a look-up reads one line from
    the disk. Several threads may look up passages at the same time. A compressed file is unpacked into the cache folder
    once, and the files of a folder are joined there.

    Attributes:
        path: the file or folder as it was given.
        plain: the same, or its content in one plain file.

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
        self._layout = "tsv" if self.plain.suffix == ".tsv" else "json"
        if self._layout == "tsv" and self._file.readline().removeprefix(_BOM).strip() == _DPR_HEADER:
            self._layout = "dpr"
        self._offsets = _Offsets.load(self.plain) or self._scan()
        if not len(self):
            raise TourError(f"the corpus {self.path} holds no document.")

    def __getitem__(self, docid: str) -> str:
        document = self.document(docid)
        return Passage(document.title, document.text)

    def document(self, docid: str) -> Document:
        """The document of a docid, with its fields."""
        for start in self._offsets.find(_hash(docid)) if isinstance(docid, str) else ():
            document = self._read(start)
            if document.docid == docid:
                return document
        raise UnknownDocument(docid, self.path)

    def fields(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Docid and fields of each document, for filters."""
        return ((document.docid, document.fields) for document in self.records())

    def __len__(self) -> int:
        return len(self._offsets.starts)

    def __iter__(self) -> Iterator[str]:
        return (document.docid for document in self.records())

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def records(self) -> Iterator[Document]:
        """All documents (docid, title, text) in the order of the file."""
        return (document for _, _, document in self._lines())

    def lines(self) -> Iterator[tuple[bytes, Document]]:
        """The JSON of each document, which may have further fields, and the document."""
        for _, line, document in self._lines():
            if self._layout != "json":
                title = {"title": document.title} if document.title else {}
                line = json.dumps({"_id": document.docid, **title, "text": document.text}).encode()
            yield line.removeprefix(_BOM).strip(), document

    def _lines(self) -> Iterator[tuple[int, bytes, Document]]:
        """The offset in bytes, the line and the document of every line; blank lines are skipped."""
        with open(self.plain, "rb") as file:
            start = 0
            for number, line in enumerate(file, start=1):
                if line.strip() and not (number == 1 and self._layout == "dpr"):  # its header
                    try:
                        yield start, line, _parse_document(line, self._layout)
                    except ValueError as error:
                        raise TourError(f"{self.path}, line {number} {error}; correct or delete it.") from None
                start += len(line)

    def _scan(self) -> "_Offsets":
        """Check every line, and find where each document begins."""
        from tqdm import tqdm

        state = file_state(self.plain)  # before it is read: a change during the scan must be noticed
        hidden = None if state[0] >= _SAVED_FROM_BYTES else True  # None: a count on a terminal only
        hashes, starts = array("Q"), array("Q")
        for start, _, document in tqdm(self._lines(), desc="reading", unit=" documents", disable=hidden):
            hashes.append(_hash(document.docid))
            starts.append(start)
        unsorted = np.array(hashes, dtype=np.uint64)
        order = np.argsort(unsorted, kind="stable")
        offsets = _Offsets(unsorted[order], np.array(starts, dtype=np.uint64)[order])
        self._refuse_duplicates(offsets)
        if state[0] >= _SAVED_FROM_BYTES and file_state(self.plain) == state and not self.path.is_fifo():
            offsets.save(self.plain, state)
        return offsets

    def _refuse_duplicates(self, offsets: "_Offsets") -> None:
        # Only ids with equal hashes can be equal.
        for repeated in np.unique(offsets.hashes[1:][offsets.hashes[1:] == offsets.hashes[:-1]]):
            docids = [self._read(start).docid for start in offsets.find(repeated)]
            if docid := next((docid for docid in docids if docids.count(docid) > 1), None):
                raise TourError(f"{self.path} has the id {docid!r} twice; delete one of the two lines.")

    def _read(self, start: int) -> Document:
        # Unlike read, pread does not move a shared file position, so threads need no lock.
        line = b""
        while b"\n" not in line and (more := os.pread(self._file.fileno(), _READ_BYTES, start + len(line))):
            line += more
        try:
            return _parse_document(line.partition(b"\n")[0], self._layout)
        except ValueError as error:
            raise TourError(f"{self.path} was changed while in use (a line {error}); start again.") from None


def corpus_file(path: Path) -> Path | None:
    """The corpus at a path: a file, a folder's `corpus.jsonl` or only `.jsonl` file, or a folder of several; else None.

    Each file may be compressed. A data set of ir_datasets (`irds:beir/scifact`) is written to a file first.
    """
    if str(path).startswith(IRDS):
        return irds_corpus(str(path))
    if path.is_file() or path.is_fifo():
        if path.suffix in {".zip", ".bz2", ".7z"}:
            raise TourError(f"{path} is not compressed as {', '.join(PACKED)} are; unpack it first.")
        return path
    inside = [file for suffix in ("", *PACKED) if (file := path / f"corpus.jsonl{suffix}").is_file()]
    files = inside[:1] or json_lines_files(path)
    return path if len(files) > 1 else next(iter(files), None)


class _Offsets(NamedTuple):
    """Hashes of ids, ascending, and the byte offset of each document's line; both uint64 [documents]."""

    hashes: np.ndarray
    starts: np.ndarray

    def find(self, hashed: int) -> list[int]:
        """Offsets of the lines whose ids have this hash: usually none or one."""
        left, right = (int(np.searchsorted(self.hashes, np.uint64(hashed), side)) for side in ("left", "right"))
        return self.starts[left:right].tolist()

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """The saved offsets of a file; None if there are none for its present state (see `file_state`)."""
        try:
            with np.load(cls._saved(path), allow_pickle=False) as saved:  # a zip file, whose checksums NumPy compares
                is_same = saved["state"].tolist() == list(file_state(path))
                return cls(saved["hashes"], saved["starts"]) if is_same else None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):  # never saved, or damaged
            return None

    def save(self, path: Path, state: tuple[int, ...]) -> None:
        """Save them in the cache folder, in place of older ones of the same path; if that is impossible, log it."""
        try:
            with atomic_write(self._saved(path), "wb") as file:
                np.savez(file, **self._asdict(), state=np.array(state))
        except (TourError, OSError) as error:
            log.info("the offsets of %s are not saved: %s", path, error)

    @staticmethod
    def _saved(path: Path) -> Path:
        return cache_home() / "offsets" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()}.npz"


def _hash(docid: str) -> int:
    """A 64-bit hash (BLAKE2b) that is the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(docid.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def open_lucene(spec: str, kind: str = "LuceneSearcher", *options: Any) -> Any:
    """One of Pyserini's searchers on the folder of an index, or on a prebuilt index, downloaded the first time."""
    ensure_java()
    searcher_class = getattr(importlib.import_module("pyserini.search.lucene"), kind)
    if Path(spec).exists():
        try:
            return searcher_class(spec, *options)
        except Exception as error:  # Java and damaged models raise errors of many types
            raise TourError(f"cannot open the Lucene index {spec}: {first_line(error)}.") from error
    searcher = open_prebuilt(spec, lambda: searcher_class.from_prebuilt_index(spec, *options))
    if searcher is None:
        raise _not_found(spec)
    return searcher


def _not_found(spec: str) -> TourError:
    return TourError(f"not found: {spec!r} is not a file, a folder or one of Pyserini's prebuilt Lucene indexes.")


class LuceneTexts(Mapping[str, str]):
    """Docid to passage, for an index built with `--storeRaw` or `--storeContents`.

    Args:
        searcher: a Pyserini `LuceneSearcher`, or anything with its `doc` and `num_docs`.
        name: the index's name in error messages.
    """

    def __init__(self, searcher: Any, name: str) -> None:
        self._searcher = searcher
        self._name = name

    def __getitem__(self, docid: str) -> str:
        document = self._searcher.doc(docid) if isinstance(docid, str) else None
        if document is None:
            raise UnknownDocument(docid, self._name)
        raw = document.raw()
        text = _passage_in(raw) if raw else None
        text = document.contents() or raw if text is None else text
        if text is None:
            raise TourError(f"{self._name} stores no text for document {docid!r}; index it again with --storeRaw.")
        return text

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def __iter__(self) -> Iterator[str]:
        return (self._searcher.doc(number).docid() for number in range(len(self)))


def _passage_in(raw: str) -> str | None:
    """The passage of a raw JSON document with `text` or `contents`; None for any other document."""
    try:
        record = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    title, text, contents = (record.get(name) for name in ("title", "text", "contents"))
    if isinstance(text, str):
        return Passage(title if isinstance(title, str) else "", text)
    return _titled(contents) if isinstance(contents, str) else None


def _titled(contents: str) -> str:
    """Contents as a passage with a title if they are a line of title and a line of text, as in DPR's Wikipedia.

    Titles in quotation marks come from a CSV file: the outer marks are removed, and doubled inner marks become single.
    """
    title, _, text = contents.partition("\n")
    if not (title and text) or "\n" in text:
        return contents
    if len(title) > 2 and title[0] == title[-1] == '"':
        title = title[1:-1].replace('""', '"')
    return Passage(title, text, "\n")


class _IrdsTexts(Mapping[str, str]):
    """Docid to passage, looked up in the document store that ir_datasets makes of a data set."""

    def __init__(self, spec: str) -> None:
        self._spec, self._lock = spec, threading.Lock()  # stores read with one position in their file
        with data_set(spec, "docs") as self._data_set:
            self._store = self._data_set.docs_store()

    def __getitem__(self, docid: str) -> str:
        with self._lock:
            found = self._store.get_many([docid])
        if docid not in found:
            raise UnknownDocument(docid, self._spec)
        _, title, text, _ = irds_document(found[docid])
        return Passage(title, text)

    def fields(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Docid and fields of each document, for filters."""
        return ((docid, fields) for docid, _, _, fields in map(irds_document, self._data_set.docs_iter()))

    def __len__(self) -> int:
        return self._data_set.docs_count() or sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (document.doc_id for document in self._data_set.docs_iter())
