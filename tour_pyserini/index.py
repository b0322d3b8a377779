# PYTHON_ARGCOMPLETE_OK
"""Encode a corpus into a FAISS index."""

import json
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.command import run
from tour_pyserini.data import demo_collection
from tour_pyserini.data.input_files import read_lines
from tour_pyserini.data.run_records import PASSAGE_INDEX
from tour_pyserini.data.texts import BeirTexts, Document, Passage, corpus_file
from tour_pyserini.encoders.encoder import TextDocumentEncoder, encode_documents, fitting_length
from tour_pyserini.encoders.loading import encoder_fingerprint, load_document_encoder
from tour_pyserini.encoders.sentence_model import POOLINGS
from tour_pyserini.errors import TourError
from tour_pyserini.flags import Request, flag_name, option, request_parser
from tour_pyserini.stores.faiss_building import check_fit, write_index
from tour_pyserini.stores.index_folder import BM25_FOLDER, Docids
from tour_pyserini.stores.signals import ENGLISH, Words, write_bm25
from tour_pyserini.stores.vector_collection import CollectionLoading
from tour_pyserini.stores.vector_database import ADDRESSES, StoreAddress, store_address
from tour_pyserini.stores.vectors import EncodedCorpus
from tour_pyserini.support.devices import BACKENDS, DTYPES, PRECISIONS, torch_threads
from tour_pyserini.support.files import atomic_folder, cache_home, check_folder, content_hash, sha256
from tour_pyserini.support.model_files import DEFAULT
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import PartialFolder

_FIELDS = ("title", "text")

# Fields by the groups of flags in --help.
_input, _encoder = partial(option, group="input and output"), partial(option, group="encoder")
_index = partial(option, group="kind of index (exact without --hnsw and --factory)")
_phrase = partial(option, group="phrases, by a phrase encoder")

# Flags of indexes of passages only, and those of a change of an index.
_PASSAGES = {
    *("encoder-class", "pooling", "l2-norm", "prefix", "batch-size", "truncate-dim", "encoder-backend", "precision"),
    *("bm25", "language"),
}
_UPDATE = {
    *("index", "corpus", "add", "delete", "device", "dtype", "batch-size", "threads", "encoder-backend"),
    "trust-remote-code",
}


@dataclass(frozen=True, kw_only=True)
class IndexRequest(Request):
    """Encode a corpus into an index; the fields are the flags of `python -m tour_pyserini.index`.

    Example:
        >>> IndexRequest(corpus="scifact/corpus.jsonl", index="indexes/scifact").faiss_kind()
        {'kind': 'flat'}

    Attributes:
        corpus: a BEIR corpus.jsonl, a folder that holds one or other .jsonl files, or a .tsv file of ids and texts.
        index: the folder of the index, or the address of a collection in a vector database.
        vectors: an exact index of the same corpus and encoder, whose vectors are used instead of encoding again.
        add: documents that an index folder gets, or gets in another version; its record says how they are encoded. With
            the first change, the folder gets a corpus of its own; before that, `corpus` is what it was built from.
        delete: a file of docids, one per line, that leave an index folder.
        phrases: index phrases: one vector per token.
    """

    corpus: str | None = _input(None, "a corpus.jsonl, a folder of .jsonl, or a .tsv; _id, title, text", common=True)
    index: str = _input(MISSING, f"folder of the index, or a database's collection; {ADDRESSES}", common=True)
    vectors: str | None = _input(None, "an exact index to copy from; of the same corpus and encoder", common=True)
    overwrite: bool = _input(False, "replace an index, once the new one is complete", common=True)
    add: str | None = _input(None, "add or replace a corpus's documents; in one step", common=True)
    delete: str | None = _input(None, "remove the docids of this file; one per line", common=True)

    encoder: str = _encoder("default", "a name, a folder, or default (all-MiniLM-L6-v2)", common=True)
    encoder_class: str | None = _encoder(None, "Pyserini's keyword: auto, dpr, ance, tct_colbert, contriever, ...")
    pooling: str | None = _encoder(None, "how token vectors become one", choices=POOLINGS, common=True)
    l2_norm: bool | None = _encoder(None, "vectors of unit norm (default: as its files say)", common=True)
    truncate_dim: int | None = _encoder(None, "dimensions kept of a vector (default: as its files say)", count=True)
    prefix: str | None = _encoder(None, 'put before every document, as "passage:", instead of the model\'s prompt')
    fields: tuple[str, ...] = _encoder(_FIELDS, "what is encoded (default: title text)", choices=_FIELDS)
    max_length: int | None = _encoder(None, "tokens read of a document (default: as its files say, or 256)", count=True)
    encoder_backend: str = _encoder("auto", "what runs it; auto: onnx where it is faster, else torch", choices=BACKENDS)
    precision: str = _encoder("fp32", "int8 is faster, with slightly other vectors", choices=PRECISIONS, common=True)
    batch_size: int | None = _encoder(None, "most documents encoded at once (default: by their tokens)", count=True)
    device: str = _encoder("cpu", "cpu, cuda:0, ...", common=True)
    dtype: str | None = _encoder(
        None,
        "numbers that the encoder computes with (default: auto: float32 on a CPU, what its files say on a GPU); "
        "with --phrases, of the vectors that are kept: float16 (the default) or float32",
        choices=DTYPES,
    )
    trust_remote_code: bool = _encoder(False, "run Python code that the encoder's folder or name brings along")
    threads: int | None = _encoder(None, "most threads (default: all processors)", count=True)

    hnsw: bool = _index(False, "a graph: fast, approximate search", common=True)
    factory: str | None = _index(None, "FAISS's factory: SQ8, PQ192x8, IVF4096,PQ48, ...", common=True)
    nprobe: int = _index(16, "lists that a search of --factory IVF... reads", count=True)
    M: int = _index(256, "HNSW: neighbours of a node", count=True)
    efC: int = _index(256, "HNSW: candidates considered for them", count=True)

    bm25: bool = _index(False, "BM25 beside the vectors, for search --sparse; of the same fields", common=True)
    language: str | None = _index(None, "stop words and stems of --bm25: en (default), de, ..., none", common=True)

    phrases: bool = _phrase(False, "index phrases", common=True)
    filter_threshold: float | None = _phrase(None, "least filter logit; -inf: all tokens (default: the encoder's)")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.flags()
        if self.add is not None or self.delete is not None:
            self._check_update(given)
            return
        if self.corpus is None:
            raise TourError("--corpus is missing.")
        if self.dtype is None:
            object.__setattr__(self, "dtype", "float16" if self.phrases else "auto")
        others, refusal = (_PASSAGES, "is not for") if self.phrases else ({"filter-threshold"}, "is only for")
        if unfit := [name for name in given if name in others]:
            raise TourError(f"--{unfit[0]} {refusal} --phrases; leave it out.")
        if self.phrases and self.dtype not in ("float16", "float32"):
            raise TourError(f"--dtype of phrases is float16 or float32, not {self.dtype}.")
        if self.language is not None:
            if not self.bm25:
                raise TourError("--language is that of --bm25; add --bm25, or leave it out.")
            Words(self.language)  # it refuses what it does not know
        if address := store_address(self.index):
            self._check_collection(address)
        if self.hnsw and self.factory is not None:
            raise TourError("--hnsw and --factory are two kinds of index; give one of them.")

    def faiss_kind(self) -> dict[str, Any]:
        """The kind of FAISS index with its settings, as the functions that build it take them."""
        if self.hnsw:
            return {"kind": "hnsw", "hnsw_m": self.M, "ef_construction": self.efC}
        if self.factory is None:
            return {"kind": "flat"}
        searched = {"nprobe": self.nprobe} if "IVF" in self.factory else {}
        return {"kind": "factory", "factory": self.factory, **searched}

    def encoder_location(self) -> str:
        """A folder by its absolute path, which is valid wherever the index is searched from; a name as it is."""
        folder = Path(self.encoder)
        return str(folder.resolve()) if self.encoder != DEFAULT and folder.is_dir() else self.encoder

    def open_corpus(self) -> BeirTexts:
        """The corpus, whose ids are checked to fit a run file."""
        file = corpus_file(Path(str(self.corpus)))
        if file is None:
            raise TourError(f"there is no corpus {self.corpus}; give a corpus.jsonl, or a folder that holds one.")
        corpus = BeirTexts(file)
        for docid in corpus:
            if docid.split() != [docid]:
                raise TourError(f"{file} has white space in the document id {docid!r}, which no run file can hold.")
        return corpus

    def _check_collection(self, address: StoreAddress) -> None:
        """Refuse flags that a collection of a vector database does not have."""
        for name in ("phrases", "hnsw", "factory", "overwrite", "language"):
            if getattr(self, name):
                hint = "; say kind=hnsw in its address" if name == "hnsw" else ""
                raise TourError(f"{flag_name(name)} is not for collections such as {address}: leave it out{hint}.")
        if self.bm25 and set(self.fields) != set(_FIELDS):
            raise TourError("--bm25 of a collection reads title and text; leave out --fields, or --bm25.")

    def _check_update(self, given: Collection[str]) -> None:
        """Refuse flags that the record of the index decides about."""
        if address := store_address(self.index):
            raise TourError(f"--add and --delete change an index folder, and {address} is a collection.")
        if others := [name for name in given if name not in _UPDATE]:
            raise TourError(f"--{others[0]} is not for --add and --delete: the index has it already; leave it out.")


class _IndexSummary(NamedTuple):
    """What indexing did.

    Attributes:
        output: the folder, or the address of a collection.
        documents: documents in the index.
        vectors: vectors in the index: one per document, or one per token that phrases begin or end with.
        encoded_before: documents that an interrupted run had encoded.
        seconds: how long it took.
    """

    output: Path | str
    documents: int
    vectors: int
    encoded_before: int
    seconds: float


CHUNK = 1024  # documents that are encoded and saved together
_COPIED = 64 * CHUNK  # documents whose vectors are copied together
_ASKED = ("pooling", "l2_norm", "truncate_dim")
"""Options of a request that change what the encoder's files say; a search uses them again."""
_LIBRARIES = ("pyserini", "faiss-cpu", "torch", "transformers", "sentence-transformers", "onnxruntime", "numpy")


def build_index(request: IndexRequest, *, progress: bool = False) -> _IndexSummary:
    """Encode a corpus and build its index; an interrupted run goes on where it was.

    Args:
        request: the corpus, the encoder, and the kind of index.
        progress: whether a bar is shown on a terminal.
    """
    started, address = time.perf_counter(), store_address(request.index)
    if request.add is not None or request.delete is not None:
        count, before = _update(request, progress=progress)
        return _IndexSummary(Path(request.index), count, count, before, time.perf_counter() - started)
    if address is None:
        check_folder(Path(request.index), overwrite=request.overwrite)
    corpus = request.open_corpus()
    count = len(corpus)
    if address is not None:
        before = _load_collection(request, corpus, address, progress=progress)
    elif not request.phrases:
        before = _build_passage_index(request, corpus, progress=progress)
    else:  # torch takes seconds to start; a mistake in the request is reported before
        from tour_pyserini.phrases.phrase_index_building import build_phrase_index

        with torch_threads(request.threads):
            count, before = build_phrase_index(request, corpus, progress=progress)
    index = Path(request.index) if address is None else str(address)
    return _IndexSummary(index, len(corpus), count, before, time.perf_counter() - started)


def demo_index() -> Path:
    """The folder of the embedded collection's index with the default encoder, built on first use and kept."""
    folder = cache_home() / f"demo-index-{sha256(demo_collection.CORPUS)[:12]}"
    if not (folder / "index").exists():
        build_index(IndexRequest(corpus=str(demo_collection.CORPUS), index=str(folder)), progress=True)
    return folder


def _document_encoder(request: IndexRequest, corpus: BeirTexts) -> tuple[Any, dict[str, Any]]:
    """The encoder, and everything that the vectors depend on."""
    names = ("encoder_class", "pooling", "l2_norm", "truncate_dim", "prefix", "device", "dtype", "precision")
    others = ("batch_size", "threads", "trust_remote_code")
    options: dict[str, Any] = {name: getattr(request, name) for name in (*names, *others)}
    encoder = load_document_encoder(request.encoder, backend=request.encoder_backend, **options)
    max_length = fitting_length(encoder, request.max_length)
    probe = encode_documents(encoder, [Document("probe", "", "dimension")], max_length=max_length)
    settings = {
        "corpus_sha256": content_hash(corpus.plain),
        "documents": len(corpus),
        "fields": sorted(set(request.fields)),
        "encoder": request.encoder_location(),
        "encoder_fingerprint": encoder_fingerprint(
            request.encoder, request.encoder_class, trust_remote_code=request.trust_remote_code
        ),
        "encoder_class": request.encoder_class,
        "pooling": getattr(encoder, "pooling", None),
        "l2_norm": getattr(encoder, "l2_norm", None),
        **getattr(encoder, "settings", {}),
        "asked": {name: value for name in _ASKED if (value := getattr(request, name)) is not None},
        "prefix": request.prefix,
        "max_length": max_length,
        "dimension": probe.shape[1],
        "chunk": CHUNK,
    }
    return encoder, settings


def _load_collection(request: IndexRequest, corpus: BeirTexts, address: StoreAddress, *, progress: bool) -> int:
    """Load the encoded corpus into a collection of a vector database; returns how many documents were there before."""
    encoder, settings = _document_encoder(request, corpus)
    loading = CollectionLoading(address, settings, corpus, bm25=request.bm25)
    before = loading.done
    _fill(loading, request, corpus, encoder, settings, progress=progress)
    loading.finish()
    return before


def _build_passage_index(request: IndexRequest, corpus: BeirTexts, *, progress: bool) -> int:
    """Build a folder; returns how many documents had been encoded before."""
    folder, kind, language = Path(request.index), request.faiss_kind(), request.language or ENGLISH
    if request.bm25:
        Words(language)  # packages that are missing are missed before a corpus is encoded
    encoder, settings = _document_encoder(request, corpus)
    check_fit(len(corpus), settings["dimension"], **kind)
    with PartialFolder(folder.with_name(f"{folder.name}.partial"), settings, "vectors") as partial:
        check_folder(folder, overwrite=request.overwrite)  # another process may have just written it
        before = partial.done
        _fill(partial, request, corpus, encoder, settings, progress=progress)
        with atomic_folder(folder, overwrite=request.overwrite) as new:
            _write(new, partial, settings, kind, threads=request.threads)
            if request.bm25:
                kept = (document.only(request.fields) for document in corpus.records())
                passages = (Passage(document.title, document.text) for document in kept)
                write_bm25(passages, new / BM25_FOLDER, language=language)
        partial.discard()
    return before


def _update(request: IndexRequest, *, progress: bool) -> tuple[int, int]:
    """Change the collection of a folder; returns how many documents it then has, and how many were encoded before."""
    from tour_pyserini.stores.index_updates import IndexUpdate

    folder, threads, path = Path(request.index), request.threads, Path(f"{request.index.rstrip('/')}.partial")
    deleted = set[str]()
    for line in read_lines(request.delete) if request.delete else ():
        if len(line.text.split()) != 1:
            line.refuse("is no docid: --delete reads one docid per line")
        deleted.add(line.text.strip())
    if request.add is None:
        update = IndexUpdate(folder, request.corpus, None, deleted)
        with PartialFolder(path, {"deleted": len(deleted)}), atomic_folder(folder, overwrite=True) as new:
            count = update.write(new, np.empty((0, update.settings["dimension"]), np.float32), threads=threads)
        return count, count
    collection, request = request.corpus, replace(request, corpus=request.add, add=None, delete=None)
    added = request.open_corpus()
    update = IndexUpdate(folder, collection, added, deleted)
    request = replace(request, **{name: value for name, value in update.encoder_flags().items() if value is not None})
    encoder, settings = _document_encoder(request, added)
    update.check_encoder(settings)
    with PartialFolder(path, settings, "vectors") as partial:
        before = partial.done
        _fill(partial, request, added, encoder, settings, progress=progress)
        with atomic_folder(folder, overwrite=True) as new:
            count = update.write(new, partial.array("vectors", np.float32, settings["dimension"]), threads=threads)
        partial.discard()
    return count, count - len(added) + before


def _fill(
    partial: PartialFolder | CollectionLoading,
    request: IndexRequest,
    corpus: BeirTexts,
    encoder: Any,
    settings: dict[str, Any],
    *,
    progress: bool,
) -> None:
    """Encode the documents that are not in it yet, or copy their vectors."""
    if request.vectors is not None:
        _copy(Path(request.vectors), corpus, settings, partial)
        return
    from tqdm import tqdm

    documents = (document.only(request.fields) for document in islice(corpus.records(), partial.done, None))
    disable = None if progress else True  # None: a bar on a terminal only
    # An encoder of this package knows its threads itself, and need not import torch.
    threads = nullcontext() if isinstance(encoder, TextDocumentEncoder) else torch_threads(request.threads)
    shown: dict[str, Any] = {"unit": "doc", "desc": "encoding", "disable": disable, "dynamic_ncols": True}
    with threads, tqdm(total=len(corpus), initial=partial.done, **shown) as bar:
        for chunk in iter(lambda: list(islice(documents, CHUNK)), []):
            vectors = encode_documents(encoder, chunk, batch_size=request.batch_size, max_length=settings["max_length"])
            partial.append([document.docid for document in chunk], vectors=vectors)
            bar.update(len(chunk))


def _copy(
    folder: Path, corpus: BeirTexts, settings: dict[str, Any], partial: PartialFolder | CollectionLoading
) -> None:
    """Use the vectors of an index that was made with the same settings."""
    path = folder / PASSAGE_INDEX
    try:
        stored = dict(json.loads(path.read_text(encoding="utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise TourError(f"{folder} is not an index that this command made; choose other --vectors.") from None
    if other := [name for name, value in settings.items() if stored.get(name) != value]:
        raise TourError(
            f"the vectors in {folder} were made with another {other[0]}; leave out --vectors, or change it."
        )
    docids = Docids.of(corpus)
    vectors = EncodedCorpus(folder, docids=docids, dimension=settings["dimension"])
    for start in range(partial.done, len(docids), _COPIED):
        part = docids[start : start + _COPIED]
        partial.append(part, vectors=vectors(np.arange(start, start + len(part))))


def _write(
    folder: Path, partial: PartialFolder, settings: dict[str, Any], kind: dict[str, Any], *, threads: int | None
) -> None:
    """Write the two files that Pyserini reads, and the record of how they were made."""
    vectors = partial.array("vectors", np.float32, settings["dimension"])
    write_index(vectors, folder / "index", **kind, threads=threads)
    shutil.copyfile(partial.folder / "docid", folder / "docid")
    record = {
        "settings": settings,
        "index": kind,
        "versions": {name: version_of(name) for name in _LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "docid")},
    }
    (folder / PASSAGE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


EXAMPLE = """\
example:
  python -m tour_pyserini.index --corpus scifact/corpus.jsonl --index indexes/scifact --bm25
"""


def index_request(argv: Sequence[str] | None) -> IndexRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    description = (
        "Encode a corpus into a FAISS index that Pyserini searches too. It appears when it is complete; the same "
        "command continues an interrupted one."
    )
    parser = request_parser("index", IndexRequest, description=description, epilog=EXAMPLE)
    return IndexRequest.from_flags(vars(parser.parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = index_request(argv)
    summary = build_index(request, progress=True)
    before, count = summary.encoded_before, f"{summary.documents} documents"
    if request.phrases:
        count = f"{summary.vectors} token vectors of {count}"
    sys.stderr.write(
        f"{summary.output}: {count} ({before} were encoded before) in {summary.seconds:.1f} s, "
        f"{(summary.documents - before) / summary.seconds:.1f} documents per second\n"
    )


if __name__ == "__main__":
    run(main)
