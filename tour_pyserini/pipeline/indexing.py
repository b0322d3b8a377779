"""Encoding a corpus into an index of passages that this package and Pyserini search."""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.data import demo_collection
from tour_pyserini.data.beir_texts import BeirTexts
from tour_pyserini.data.documents import Document, Passage
from tour_pyserini.data.records import PASSAGE_INDEX, version_of
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.index_request import IndexRequest, IndexSummary
from tour_pyserini.stores.bm25_index import FOLDER as BM25_FOLDER
from tour_pyserini.stores.bm25_index import check_bm25, write_bm25
from tour_pyserini.stores.bm25_words import ENGLISH
from tour_pyserini.stores.docids import Docids
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.engines.collection_loading import CollectionLoading
from tour_pyserini.stores.engines.store_address import StoreAddress, store_address
from tour_pyserini.stores.faiss_building import check_fit, write_index
from tour_pyserini.stores.partial_vectors import PartialVectors
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.files import atomic_folder, cache_home, check_folder, sha256
from tour_pyserini.support.json_text import parse_json
from tour_pyserini.support.memo import content_hash

CHUNK = 1024  # documents that are encoded and saved together
COPIED = 64 * CHUNK  # documents whose vectors are copied together
ASKED = ("pooling", "l2_norm", "truncate_dim")
"""Options of a request that change what the encoder's files say; a search uses them again."""
LIBRARIES = ("pyserini", "faiss-cpu", "torch", "transformers", "sentence-transformers", "onnxruntime", "numpy")


def build_index(request: IndexRequest, *, progress: bool = False) -> IndexSummary:
    """Encode a corpus and build its index; an interrupted run goes on where it was.

    Args:
        request: the corpus, the encoder, and the kind of index.
        progress: whether a bar is shown on a terminal.
    """
    # torch and Pyserini take seconds to start; a mistake in the request is reported before.
    from tour_pyserini.pipeline.phrase_indexing import build_phrase_index

    address = store_address(request.index)
    if address is None:
        check_folder(Path(request.index), overwrite=request.overwrite)
    corpus = request.open_corpus()
    if address is not None:
        return _load_collection(request, corpus, address, progress=progress)
    if not request.phrases:
        return _build_passage_index(request, corpus, progress=progress)
    with torch_threads(request.threads):
        return build_phrase_index(request, corpus, progress=progress)


def demo_index() -> Path:
    """The folder of the embedded collection's index with the default encoder, built on first use and kept."""
    folder = cache_home() / f"demo-index-{sha256(demo_collection.CORPUS)[:12]}"
    if not (folder / "index").exists():
        build_index(IndexRequest(corpus=str(demo_collection.CORPUS), index=str(folder)), progress=True)
    return folder


def passage_settings(request: IndexRequest, corpus: BeirTexts, encoder: Any) -> dict[str, Any]:
    """Everything that the vectors depend on."""
    from tour_pyserini.encoders.document_vectors import encode_documents, fitting_length
    from tour_pyserini.encoders.encoder_loading import encoder_fingerprint

    max_length = fitting_length(encoder, request.max_length)
    probe = encode_documents(encoder, [Document("probe", "", "dimension")], max_length=max_length)
    return {
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
        "asked": {name: value for name in ASKED if (value := getattr(request, name)) is not None},
        "prefix": request.prefix,
        "max_length": max_length,
        "dimension": probe.shape[1],
        "chunk": CHUNK,
    }


def _document_encoder(request: IndexRequest) -> Any:
    from tour_pyserini.encoders.encoder_loading import load_document_encoder

    return load_document_encoder(
        request.encoder,
        encoder_class=request.encoder_class,
        pooling=request.pooling,
        l2_norm=request.l2_norm,
        truncate_dim=request.truncate_dim,
        prefix=request.prefix,
        device=request.device,
        dtype=request.dtype or "auto",
        backend=request.encoder_backend or "auto",
        precision=request.precision or "fp32",
        batch_size=request.batch_size,
        threads=request.threads,
        trust_remote_code=request.trust_remote_code,
    )


def _load_collection(
    request: IndexRequest, corpus: BeirTexts, address: StoreAddress, *, progress: bool
) -> IndexSummary:
    """Load the encoded corpus into a collection of a vector database."""
    started = time.perf_counter()
    encoder = _document_encoder(request)
    settings = passage_settings(request, corpus, encoder)
    loading = CollectionLoading(address, settings, corpus, bm25=bool(request.bm25))
    before = loading.done
    if request.vectors is None:
        _encode(request, corpus, encoder, loading, max_length=settings["max_length"], progress=progress)
    else:
        _copy(Path(request.vectors), corpus, settings, loading)
    loading.finish()
    return IndexSummary(str(address), len(corpus), len(corpus), before, time.perf_counter() - started)


def _build_passage_index(request: IndexRequest, corpus: BeirTexts, *, progress: bool) -> IndexSummary:
    started = time.perf_counter()
    folder, kind = Path(request.index), request.faiss_kind()
    encoder = _document_encoder(request)
    if request.bm25:
        check_bm25()
    settings = passage_settings(request, corpus, encoder)
    check_fit(len(corpus), settings["dimension"], **kind)
    with PartialVectors(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        # Another process that worked here may have finished the index since the first check.
        check_folder(folder, overwrite=request.overwrite)
        before = partial.done
        if request.vectors is None:
            _encode(request, corpus, encoder, partial, max_length=settings["max_length"], progress=progress)
        else:
            _copy(Path(request.vectors), corpus, settings, partial)
        with atomic_folder(folder, overwrite=request.overwrite) as new:
            _write(new, partial, settings, kind, threads=request.threads)
            if request.bm25:
                write_bm25(_passages(corpus, request.fields), new / BM25_FOLDER, language=request.language or ENGLISH)
        partial.discard()
    return IndexSummary(folder, len(corpus), len(corpus), before, time.perf_counter() - started)


def _encode(
    request: IndexRequest,
    corpus: BeirTexts,
    encoder: Any,
    partial: PartialVectors | CollectionLoading,
    *,
    max_length: int | None,
    progress: bool,
) -> None:
    from tqdm import tqdm

    from tour_pyserini.encoders.document_vectors import encode_documents, only_fields
    from tour_pyserini.encoders.text_encoders import TextDocumentEncoder

    documents = (only_fields(request.fields, document) for document in islice(corpus.records(), partial.done, None))
    hidden = None if progress else True  # None: a bar on a terminal only
    # An encoder of this package knows its threads itself, and need not import torch.
    threads = nullcontext() if isinstance(encoder, TextDocumentEncoder) else torch_threads(request.threads)
    with (
        threads,
        tqdm(
            total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=hidden, dynamic_ncols=True
        ) as bar,
    ):
        for chunk in _chunks(documents):
            vectors = encode_documents(encoder, chunk, batch_size=request.batch_size, max_length=max_length)
            partial.append([document.docid for document in chunk], vectors)
            bar.update(len(chunk))


def _copy(
    folder: Path, corpus: BeirTexts, settings: dict[str, Any], partial: PartialVectors | CollectionLoading
) -> None:
    """Use the vectors of an index that was made with the same settings."""
    path = folder / PASSAGE_INDEX
    try:
        stored = dict(parse_json(path.read_text(encoding="utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise TourError(f"{folder} is not an index that this command made; choose other --vectors.") from None
    if other := [name for name, value in settings.items() if stored.get(name) != value]:
        raise TourError(
            f"the vectors in {folder} were made with another {other[0]}; leave out --vectors, or change it."
        )
    docids = Docids.of(corpus)
    vectors = EncodedCorpus.open(folder, docids=docids, dimension=settings["dimension"])
    for start in range(partial.done, len(docids), COPIED):
        part = docids[start : start + COPIED]
        partial.append(part, vectors(np.arange(start, start + len(part))))


def _passages(corpus: BeirTexts, fields: Sequence[str]) -> Iterator[str]:
    """The passages of the documents, of the fields that are indexed."""
    from tour_pyserini.encoders.document_vectors import only_fields

    return (Passage(document.title, document.text) for document in (only_fields(fields, d) for d in corpus.records()))


def _chunks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while chunk := list(islice(documents, CHUNK)):
        yield chunk


def _write(
    folder: Path, partial: PartialVectors, settings: dict[str, Any], kind: dict[str, Any], *, threads: int | None
) -> None:
    """Write the two files that Pyserini reads, and the record of how they were made."""
    write_index(partial.vectors(), folder / "index", **kind, threads=threads)
    shutil.copyfile(partial.folder / "docid", folder / "docid")
    record = {
        "settings": settings,
        "index": kind,
        "versions": {name: version_of(name) for name in LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "docid")},
    }
    (folder / PASSAGE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
