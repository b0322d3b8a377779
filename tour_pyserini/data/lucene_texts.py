"""Passages stored in a Pyserini Lucene index."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.data.documents import Passage, UnknownDocument
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.java import ensure_java
from tour_pyserini.support.pyserini_names import open_prebuilt


def open_lucene(spec: str) -> Any:
    """Pyserini's LuceneSearcher on the folder of an index, or on a prebuilt index, downloaded the first time."""
    ensure_java()
    from pyserini.search.lucene import LuceneSearcher

    if Path(spec).exists():
        try:
            return LuceneSearcher(spec)
        except Exception as error:  # Java raises errors of many types
            raise TourError(f"cannot open the Lucene index {spec}: {first_line(error)}.") from error
    searcher = open_prebuilt(spec, lambda: LuceneSearcher.from_prebuilt_index(spec))
    if searcher is None:
        raise TourError(f"not found: {spec!r} is not a file, a folder or one of Pyserini's prebuilt Lucene indexes.")
    return searcher


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
        if text is None:
            text = document.contents() or raw
        if text is None:
            raise TourError(
                f"the Lucene index {self._name} stores no text for document {docid!r}; index it again with --storeRaw."
            )
        return text

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def __iter__(self) -> Iterator[str]:
        return (self._searcher.doc(number).docid() for number in range(len(self)))

    def __repr__(self) -> str:
        return f"LuceneTexts({self._name!r})"


def _passage_in(raw: str) -> str | None:
    """The passage of a raw JSON document with `text` or `contents`; None for any other document."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
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
