"""Changes of the collection of an index folder: documents are added, replaced and deleted.

Documents that stay keep their vectors and their order; those that are added or replaced stand at the end. With the
first change, the folder gets a `corpus.jsonl` of what it holds: vectors, docids, BM25, texts and checksums change in
one step, when the new folder takes the place of the old one.
"""

import json
import logging
from collections.abc import Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.run_records import PASSAGE_INDEX
from tour_pyserini.data.texts import BeirTexts, Document, Passage, corpus_file
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.stores.faiss_building import write_faiss_index, write_index
from tour_pyserini.stores.index_folder import (
    BM25_FOLDER,
    BM25_RECORD,
    CORPUS,
    Docids,
    check_checksums,
    has_bm25,
    read_faiss,
)
from tour_pyserini.stores.signals import write_bm25
from tour_pyserini.support.devices import faiss_threads
from tour_pyserini.support.files import content_hash, sha256
from tour_pyserini.support.resumable import refuse_other_settings

log = logging.getLogger(__name__)

_COLLECTION = ("corpus_sha256", "documents")  # the settings in a record that are not the encoder's


class IndexUpdate:
    """What a folder becomes.

    Args:
        folder: of a passage index.
        corpus: what it was built from; it is not needed when the folder has a corpus of its own.
        added: new documents, and new versions of documents that the index has.
        deleted: docids.

    Raises:
        TourError: if the folder is not such an index, or was built from another corpus.
    """

    def __init__(self, folder: Path, corpus: str | None, added: BeirTexts | None, deleted: Set[str]) -> None:
        self.folder, self.added, self.deleted = folder, added, deleted
        try:
            self.record = read_json_object(folder / PASSAGE_INDEX)
            self.settings: dict[str, Any] = self.record["settings"]
        except (OSError, ValueError, KeyError) as error:
            raise TourError(f"{folder} is no index of passages of this command's ({first_line(error)}).") from error
        file = corpus_file(folder) or (corpus_file(Path(corpus)) if corpus else None)
        if file is None:
            raise TourError(f"--corpus is missing: give what {folder} was built from.")
        self.corpus = BeirTexts(file)
        if content_hash(self.corpus.plain) != self.settings["corpus_sha256"]:
            raise TourError(f"{file} is not the corpus that {folder} was built from; give that one as --corpus.")

    def encoder_flags(self) -> dict[str, Any]:
        """The flags of `index` that say how the documents were encoded."""
        names = ("encoder", "encoder_class", "prefix", "max_length")
        flags = {name: self.settings[name] for name in names} | self.settings["asked"]
        return flags | {"fields": tuple(self.settings["fields"]), "precision": self.settings.get("precision")}

    def check_encoder(self, settings: dict[str, Any]) -> None:
        """Refuse new documents that would be encoded in another way than those of the index."""
        before, now = ({**each, **dict.fromkeys(_COLLECTION)} for each in (self.settings, settings))
        refuse_other_settings(self.folder, before, now)

    def write(self, new: Path, vectors: np.ndarray, *, threads: int | None = None) -> int:
        """Write the changed index into an empty folder; nobody else may change the old one meanwhile.

        Args:
            new: the folder.
            vectors: of the new documents, float32 [added, d].
            threads: most threads that FAISS uses.

        Returns:
            The number of documents.
        """
        if read_json_object(self.folder / PASSAGE_INDEX) != self.record:
            raise TourError(f"{self.folder} was changed by another command meanwhile; run this one again.")
        check_checksums(self.folder, PASSAGE_INDEX, ("index", "docid"))
        old = Docids.read(self.folder / "docid")
        gone = self.deleted | set(self.added or ())
        is_gone = np.fromiter((docid in gone for docid in old), bool, len(old))
        if unknown := sorted(self.deleted - set(old)):
            log.warning("%d documents to delete are not in %s, such as %r", len(unknown), self.folder, unknown[0])
        docids = [docid for docid, is_old in zip(old, is_gone, strict=True) if not is_old] + list(self.added or ())
        if not docids:
            raise TourError(f"this would leave no document in {self.folder}; delete the folder instead.")
        self._write_faiss(new / "index", is_gone, vectors, threads)
        (new / "docid").write_text("".join(f"{docid}\n" for docid in docids), encoding="utf-8")
        with open(new / CORPUS, "wb") as file:
            file.writelines(line + b"\n" for line, _ in self._lines(gone))
        if has_bm25(self.folder):
            language = read_json_object(self.folder / BM25_FOLDER / BM25_RECORD)["settings"]["language"]
            kept = (document.only(self.settings["fields"]) for _, document in self._lines(gone))
            passages = (Passage(document.title, document.text) for document in kept)
            write_bm25(passages, new / BM25_FOLDER, language=language)
        record = {
            **self.record,
            "settings": {**self.settings, "corpus_sha256": sha256(new / CORPUS), "documents": len(docids)},
            "sha256": {name: sha256(new / name) for name in ("index", "docid")},
        }
        (new / PASSAGE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        return len(docids)

    def _lines(self, gone: Set[str]) -> Iterator[tuple[bytes, Document]]:
        """The lines of the new corpus, with all fields that the old ones have, and their documents."""
        kept = ((line, document) for line, document in self.corpus.lines() if document.docid not in gone)
        return chain(kept, self.added.lines() if self.added else ())

    def _write_faiss(self, path: Path, is_gone: np.ndarray, vectors: np.ndarray, threads: int | None) -> None:
        """Write the vectors that stay, and then the new ones, as an index of the same kind."""
        import faiss

        index = read_faiss(self.folder / "index", mapped=False)
        gone = np.flatnonzero(is_gone)
        if len(gone) and self.record["index"]["kind"] == "hnsw":  # a graph cannot lose nodes
            stay = np.delete(faiss.downcast_index(index).reconstruct_n(0, index.ntotal), gone, axis=0)
            write_index(np.concatenate([stay, vectors]), path, **self.record["index"], threads=threads)
            return
        if len(gone):
            try:
                index.remove_ids(gone)
            except RuntimeError as error:
                hint = f"build {self.folder} again: --vectors spares the encoding"
                raise TourError(f"nothing can be deleted from an index of {type(index).__name__}; {hint}.") from error
            _renumber(index, np.cumsum(~is_gone) - 1)
        with faiss_threads(threads):
            index.add(np.ascontiguousarray(vectors))
        write_faiss_index(index, path)


def _renumber(index: Any, positions: np.ndarray) -> None:
    """Give the vectors that an inverted file has kept new positions, int64 [old size]; others renumber themselves."""
    import faiss

    inverted: Any = faiss.try_extract_index_ivf(index)
    for number in range(inverted.nlist if inverted is not None else 0):
        if size := inverted.invlists.list_size(number):
            ids = faiss.rev_swig_ptr(inverted.invlists.get_ids(number), size)
            ids[:] = positions[ids]
