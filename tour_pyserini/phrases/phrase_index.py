"""A phrase index: the tokens that phrases begin and end with, and how it is opened from its folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.data.input_files import plain_file, read_json_object
from tour_pyserini.data.run_records import PHRASE_INDEX
from tour_pyserini.data.texts import corpus_file
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.faiss_index import set_search_effort
from tour_pyserini.stores.index_folder import Docids, check_checksums, read_faiss
from tour_pyserini.support.files import content_hash

# A run of letters and digits with their combining marks; otherwise one character as a reader sees it (a flag or a
# family emoji consists of several code points).
_WORD = r"(?:[\p{L}\p{N}][\p{M}\p{Cf}]*)+|(?![\s\x1c-\x1f])\X"
_DISTANCE_BITS = 16  # of a phrase's id: rows from its first token to its last
STARTS, ENDS = 1, 2
"""Roles of a token, as bits: a phrase may begin with it; a phrase may end with it."""

ROW = np.dtype(
    [
        ("passage", "<u4"),  # position of the passage in the corpus
        ("first", "<u4"),  # positions of the words in which the token begins and ends
        ("last", "<u4"),
        ("begin", "<u4"),  # offsets in the passage's text: begin of the first word, end of the last word
        ("end", "<u4"),
        ("roles", "u1"),
    ]
)
Rows = NDArray[np.void]


class PhraseSpan(NamedTuple):
    """A phrase by its position in the corpus: `text[begin:end]` of the passage `docid`."""

    docid: str
    begin: int
    end: int

    def __str__(self) -> str:
        """The name of the phrase, such as `nq-0:77-98`."""
        return f"{self.docid}:{self.begin}-{self.end}"


class PhraseIndex(NamedTuple):
    """Token vectors, with the passage and the offsets of each token.

    Attributes:
        rows: [n] see `ROW`; the tokens of a passage are consecutive rows, in the order of the text.
        vectors: [n, d] float16 or float32, memory-mapped if the index is opened from a folder.
        index: a FAISS index of the same vectors.
        docids: the docid of each passage.
        largest_norm: the largest norm of a token vector, which bounds the rounding errors of inner products.
    """

    rows: Rows
    vectors: Floats
    index: Any
    docids: Sequence[str]
    largest_norm: float

    @classmethod
    def in_memory(cls, rows: Rows, vectors: Floats, docids: Sequence[str]) -> Self:
        """An exact index of token vectors [n, d] that were just computed."""
        import faiss

        exact, index = vectors.astype(np.float32), faiss.IndexFlatIP(vectors.shape[1])
        index.add(exact)
        return cls(rows, vectors, index, docids, float(np.linalg.norm(exact, axis=1).max()))

    @staticmethod
    def phrase_id(start: Ids, end: Ids) -> Ids:
        """The ids of the phrases whose first and last tokens are at these rows."""
        return (start << _DISTANCE_BITS) | (end - start)

    @staticmethod
    def start_and_end(ids: Ids) -> tuple[Ids, Ids]:
        """The rows of the first and last tokens of phrases; the inverse of `phrase_id`."""
        start = ids >> _DISTANCE_BITS
        return start, start + (ids & ((1 << _DISTANCE_BITS) - 1))

    def phrase_vectors(self, ids: Ids) -> Floats:
        """The vectors [start; end] [m, 2 d] of phrases [m], float32."""
        start, end = self.start_and_end(np.asarray(ids, dtype=np.int64))
        return np.concatenate([self.vectors[start], self.vectors[end]], axis=1).astype(np.float32)

    def span(self, id_: int) -> PhraseSpan:
        """The docid and offsets of a phrase."""
        start, end = (self.rows[row] for row in self.start_and_end(np.int64(id_)))  # type: ignore[arg-type]
        return PhraseSpan(self.docids[int(start["passage"])], int(start["begin"]), int(end["end"]))


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in the record of a phrase index, with the kind of its FAISS index and its size.

    Raises:
        TourError: if the folder is not a phrase index, or its record is damaged.
    """
    path = Path(folder) / PHRASE_INDEX
    try:
        record = read_json_object(path)
        return {**record["settings"], "index": record["index"], **record["built"]}
    except FileNotFoundError:
        raise TourError(
            f"{folder} is not a phrase index: it has no file `{PHRASE_INDEX}`; build an index with "
            "python -m tour_pyserini.index --phrases."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(
            f"{path} does not describe a phrase index ({first_line(error)}); build the index again."
        ) from error


def open_phrase_index(
    folder: str | os.PathLike[str], *, corpus: str | os.PathLike[str] | None = None, nprobe: int | None = None
) -> PhraseIndex:
    """Open a phrase index; its files are memory-mapped and read only when they are needed.

    Args:
        folder: the folder that `python -m tour_pyserini.index --phrases` wrote.
        corpus: its corpus; a file that is not the one that the index was built from is refused, because phrases would
            be the wrong words.
        nprobe: lists of an inverted file that a query searches; None: as the index was built.

    Raises:
        TourError: if the folder is not a phrase index or damaged, or `nprobe` is given for a flat index.
    """
    settings, folder = read_settings(folder), Path(folder)
    file = corpus_file(Path(corpus)) if corpus is not None else None
    if file is not None and content_hash(plain_file(file)) != settings["corpus_sha256"]:
        raise TourError(
            f"the index {folder} was made from another corpus than {corpus}; "
            "give the corpus of the index, or build the index again."
        )
    count, dimension = settings["rows"], settings["dimension"]
    check_checksums(folder, PHRASE_INDEX, ("index", "docid", "rows", "vectors"))
    rows = np.memmap(folder / "rows", dtype=ROW, mode="r", shape=(count,))
    vectors = np.memmap(folder / "vectors", dtype=settings["dtype"], mode="r", shape=(count, dimension))
    index = read_faiss(folder / "index", mapped=True)
    set_search_effort(index, str(folder), nprobe=nprobe)
    return PhraseIndex(rows, vectors, index, Docids.read(folder / "docid"), settings["largest_norm"])


def word_offsets(text: str) -> NDArray[np.int64]:
    """Find where the words of a text begin and end: [w, 2], in characters of the unchanged text, in order.

    A run of letters and digits is a word, every other character that is not white space is a word of its own. The
    text is not normalised: `text[begin:end]` is the word.

    Example:
        >>> word_offsets("It's 1901.").tolist()
        [[0, 2], [2, 3], [3, 4], [5, 9], [9, 10]]
    """
    import regex

    return np.array([match.span() for match in regex.finditer(_WORD, text)], dtype=np.int64).reshape(-1, 2)


def token_rows(
    text: str, offsets: Any, *, passage: int = 0, logits: Floats | None = None, threshold: float = -np.inf
) -> tuple[Rows, NDArray[np.int64]]:
    """Make the rows of a text: one for each token that begins or ends a word, and passes the filter.

    A phrase begins where a word begins and ends where a word ends, so it never contains half a word, half an emoji
    or a letter without its accent. If a word has several tokens, the first may begin a phrase and the last may end one.
    A token keeps a role if its logit for that role is above the threshold. The best start and the best end are always
    kept, so that a passage still has a phrase if its best end is not before its best start.

    Args:
        text: the unchanged text of the passage.
        offsets: [t, 2] begin and end of each token in the text, in order; empty tokens are skipped.
        passage: position of the passage in the corpus.
        logits: [t, 2] how likely an answer begins (column 0) and ends (column 1) with each token; None keeps all.
        threshold: lower limit of the logits; minus infinity keeps everything.

    Returns:
        rows [r] and the tokens' positions [r] in `offsets`.
    """
    words = word_offsets(text)
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    tokens = np.flatnonzero(spans[:, 1] > spans[:, 0])
    # The first and last word that each token touches; last < first if it touches none.
    first = np.searchsorted(words[:, 1], spans[tokens, 0], side="right")
    last = np.searchsorted(words[:, 0], spans[tokens, 1]) - 1
    in_words = (last >= first) & (first < len(words))
    tokens, first, last = tokens[in_words], first[in_words], last[in_words]
    roles = np.zeros(len(tokens), dtype=np.uint8)
    roles[first > np.concatenate([[-1], last[:-1]])[: len(first)]] |= STARTS
    roles[last < np.concatenate([first[1:], [len(words)]])[: len(last)]] |= ENDS
    for column, role in enumerate((STARTS, ENDS)):
        with_role = np.flatnonzero(roles & role)
        if logits is not None and len(with_role):
            own = logits[tokens[with_role], column]
            rejected = ~(own > threshold)
            rejected[own.argmax()] = False
            roles[with_role[rejected]] &= ~np.uint8(role)
    has_role = roles > 0
    rows = np.zeros(int(has_role.sum()), dtype=ROW)
    rows["passage"] = passage
    rows["first"], rows["last"], rows["roles"] = first[has_role], last[has_role], roles[has_role]
    rows["begin"], rows["end"] = words[first[has_role], 0], words[last[has_role], 1]
    return rows, tokens[has_role]
