"""A phrase index: its parts, and how it is opened from its folder."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.input_files import plain_file, read_json_object
from tour_pyserini.data.records import PHRASE_INDEX
from tour_pyserini.data.texts import Passage, UnknownDocument, corpus_file
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.phrases.spans import ROW, Rows
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import check_checksums, read_docids, read_faiss
from tour_pyserini.support.files import content_hash

_NEEDED = ("rows", "largest_norm", "dimension", "documents", "dtype", "corpus_sha256", "encoder", "encoder_fingerprint")


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


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in the record of a phrase index, with the kind of its FAISS index and its size.

    Raises:
        TourError: if the folder is not a phrase index, or its record is damaged.
    """
    path = Path(folder) / PHRASE_INDEX
    try:
        record = read_json_object(path)
        settings = {**record["settings"], "index": record["index"], **record["built"]}
        if missing := [name for name in _NEEDED if name not in settings]:
            raise ValueError(f"it has no {missing[0]}")
        return {**settings, "itemsize": np.dtype(settings["dtype"]).itemsize}
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
    count, dimension = settings["rows"], settings["dimension"]
    check_checksums(folder, PHRASE_INDEX, ("index", "docid", "rows", "vectors"))
    try:
        for name, row in (("rows", ROW.itemsize), ("vectors", dimension * settings["itemsize"])):
            if (size := (folder / name).stat().st_size) != count * row:
                raise ValueError(f"{name} has {size} bytes instead of {count * row}")
        rows = np.memmap(folder / "rows", dtype=ROW, mode="r", shape=(count,))
        vectors = np.memmap(folder / "vectors", dtype=settings["dtype"], mode="r", shape=(count, dimension))
    except (OSError, ValueError) as error:
        raise TourError(f"the phrase index {folder} is damaged ({first_line(error)}); build it again.") from error
    docids = read_docids(folder / "docid")
    index = read_faiss(folder / "index", mapped=True)
    if index.ntotal != count or index.d != dimension or len(docids) != settings["documents"]:
        raise TourError(f"the phrase index {folder} is damaged: its files do not fit together; build it again.")
    set_search_effort(index, str(folder), nprobe=nprobe)
    exact = settings["index"]["kind"] == "flat"
    return PhraseIndex(rows, vectors, index, docids, exact, settings["largest_norm"])


def check_corpus(folder: str | os.PathLike[str], corpus: str | os.PathLike[str]) -> None:
    """Check that a corpus file is the one that the index was built from; otherwise phrases would be the wrong words.

    A corpus that is not a file, such as a Lucene index, is not checked.

    Raises:
        TourError: if the file has another checksum.
    """
    file = corpus_file(Path(corpus))
    if file is not None and content_hash(plain_file(file)) != read_settings(folder)["corpus_sha256"]:
        raise TourError(
            f"the index {folder} was made from another corpus than {corpus}; "
            "give the corpus of the index, or build the index again."
        )


def is_built_with(folder: str | os.PathLike[str], encoder: Any) -> bool:
    """Whether a phrase encoder built the index; a checkpoint with only query encoders fits every index."""
    return encoder.fingerprint() in (None, read_settings(folder)["encoder_fingerprint"])


_DISTANCE_BITS = 16
LONGEST_PHRASE = (1 << (_DISTANCE_BITS - 1)) - 1
"""The largest possible limit of words of a phrase: a word has at most two rows, and the distance has 16 bits."""


def phrase_id(start: Ids, end: Ids) -> Ids:
    """The ids of the phrases whose first and last tokens are at these rows."""
    return (start << _DISTANCE_BITS) | (end - start)


def start_and_end(ids: Ids) -> tuple[Ids, Ids]:
    """The rows of the first and last tokens of phrases; the inverse of `phrase_id`."""
    start = ids >> _DISTANCE_BITS
    return start, start + (ids & ((1 << _DISTANCE_BITS) - 1))


class PhraseSpan(NamedTuple):
    """A phrase by its position in the corpus: `text[begin:end]` of the passage `docid`."""

    docid: str
    begin: int
    end: int

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read the name of a phrase, such as `nq-0:77-98`; the inverse of `str(span)`."""
        docid, _, offsets = name.rpartition(":")
        begin, _, end = offsets.partition("-")
        return cls(docid, int(begin), int(end))

    def __str__(self) -> str:
        return f"{self.docid}:{self.begin}-{self.end}"


class PhraseNames:
    """The names of the phrases of an index, by phrase id; a searcher uses it like a sequence of docids."""

    def __init__(self, index: PhraseIndex) -> None:
        self._index = index

    def __getitem__(self, id_: int) -> str:
        """The name of a phrase, such as `nq-0:77-98`; no two phrases have the same name."""
        return str(self.span(id_))

    def span(self, id_: int) -> PhraseSpan:
        """The docid and offsets of a phrase."""
        start, end = start_and_end(np.int64(id_))  # type: ignore[arg-type]
        first, last = self._index.rows[start], self._index.rows[end]
        if first["passage"] >= len(self._index.docids):
            raise TourError(f"the phrase index is damaged: its row {int(start)} is in no passage; build it again.")
        return PhraseSpan(self._index.docids[int(first["passage"])], int(first["begin"]), int(last["end"]))


def title_and_text(texts: Mapping[str, str], span: PhraseSpan) -> tuple[str, str]:
    """The title and the text of the passage that contains a phrase.

    Raises:
        TourError: if the document is unknown, or too short to contain the phrase.
    """
    try:
        passage = texts[span.docid]
    except UnknownDocument:
        raise
    except KeyError:
        raise UnknownDocument(span.docid, "the given texts") from None
    title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
    if span.end > len(text):
        raise TourError(
            f"the index has a phrase at {span.begin}-{span.end} of document {span.docid!r}, which has {len(text)} "
            "characters; give the corpus that the index was built from."
        )
    return title, text
