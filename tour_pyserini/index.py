"""Encode a corpus into a FAISS index: `python -m tour_pyserini.index`."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.cli.command import run
from tour_pyserini.cli.index_flags import index_arguments
from tour_pyserini.data.beir_texts import BeirTexts
from tour_pyserini.data.documents import Document
from tour_pyserini.data.records import PASSAGE_INDEX, version_of
from tour_pyserini.encoders.document_vectors import encode_documents, fitting_length, only_fields
from tour_pyserini.encoders.encoder_loading import encoder_fingerprint, load_document_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.index_inputs import findable, open_corpus
from tour_pyserini.stores.encoded_corpus import EncodedCorpus
from tour_pyserini.stores.faiss_building import build_index, check_fit
from tour_pyserini.stores.partial_vectors import PartialVectors
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.files import atomic_folder, check_folder, sha256

CHUNK = 1024  # documents that are encoded and saved together
LIBRARIES = ("pyserini", "faiss-cpu", "torch", "transformers", "numpy")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = index_arguments(argv)
    with torch_threads(args.threads):
        if args.phrases:
            from tour_pyserini.pipeline.phrase_indexing import index_phrases

            index_phrases(args)
        else:
            _index(args)


def _index(args: argparse.Namespace) -> None:
    """Encode, build, report."""
    started = time.perf_counter()
    folder: Path = args.index
    check_folder(folder, overwrite=args.overwrite)
    corpus = open_corpus(args.corpus)
    encoder = load_document_encoder(
        args.encoder,
        encoder_class=args.encoder_class,
        pooling=args.pooling,
        l2_norm=args.l2_norm,
        prefix=args.prefix,
        device=args.device,
    )
    settings = _settings(args, corpus, encoder)
    kind = index_kind(args)
    check_fit(len(corpus), settings["dimension"], **kind)
    with PartialVectors(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        # Whoever worked here before may have finished the index since the first look.
        check_folder(folder, overwrite=args.overwrite)
        there = partial.done
        if args.vectors is None:
            _encode(args, corpus, encoder, partial, max_length=settings["max_length"])
        else:
            _copy(args.vectors, corpus, settings, partial)
        with atomic_folder(folder, overwrite=args.overwrite) as new:
            _write(new, partial, settings, kind, threads=args.threads)
        partial.discard()
    seconds = time.perf_counter() - started
    sys.stderr.write(
        f"{folder}: {len(corpus)} documents ({there} were encoded before) in {seconds:.1f} s, "
        f"{(len(corpus) - there) / seconds:.1f} documents per second\n"
    )


def _settings(args: argparse.Namespace, corpus: BeirTexts, encoder: Any) -> dict[str, Any]:
    """All that the vectors depend on."""
    max_length = fitting_length(encoder, args.max_length)
    probe = encode_documents(encoder, [Document("probe", "", "dimension")], max_length=max_length)
    return {
        "corpus_sha256": sha256(corpus.path),
        "documents": len(corpus),
        "fields": sorted(set(args.fields)),
        "encoder": findable(args.encoder),
        "encoder_fingerprint": encoder_fingerprint(args.encoder),
        "encoder_class": type(encoder).__name__,
        "pooling": getattr(encoder, "pooling", None),
        "l2_norm": getattr(encoder, "l2_norm", None),
        "prefix": args.prefix,
        "max_length": max_length,
        "dimension": probe.shape[1],
        "chunk": CHUNK,
    }


def index_kind(args: argparse.Namespace) -> dict[str, Any]:
    """The kind of index with its settings, as `build_index` takes them."""
    if args.hnsw:
        return {"kind": "hnsw", "hnsw_m": args.M, "ef_construction": args.efC}
    if args.pq:
        return {"kind": "pq", "pq_m": args.pq_m, "pq_nbits": args.pq_nbits}
    return {"kind": "flat"}


def _encode(
    args: argparse.Namespace, corpus: BeirTexts, encoder: Any, partial: PartialVectors, *, max_length: int
) -> None:
    from tqdm import tqdm

    documents = (only_fields(args.fields, document) for document in islice(corpus.records(), partial.done, None))
    # disable=None: a bar on a terminal alone.
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=None) as bar:
        for chunk in _chunks(documents):
            vectors = encode_documents(encoder, chunk, batch_size=args.batch_size, max_length=max_length)
            partial.append([document.docid for document in chunk], vectors)
            bar.update(len(chunk))


def _copy(folder: Path, corpus: BeirTexts, settings: dict[str, Any], partial: PartialVectors) -> None:
    """Take the vectors of an index that was made with the same settings."""
    path = folder / PASSAGE_INDEX
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        raise TourError(f"{folder} is not an index that this command made; choose other --vectors.") from None
    if other := [name for name, value in settings.items() if stored.get(name) != value]:
        raise TourError(
            f"the vectors in {folder} were made with another {other[0]}; leave out --vectors, or change it."
        )
    docids = list(islice(corpus, partial.done, None))
    vectors = EncodedCorpus.open(folder, docids=docids, dimension=settings["dimension"])
    for start in range(0, len(docids), CHUNK):
        part = docids[start : start + CHUNK]
        partial.append(part, vectors(np.arange(start, start + len(part))))


def _chunks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while chunk := list(islice(documents, CHUNK)):
        yield chunk


def _write(
    folder: Path, partial: PartialVectors, settings: dict[str, Any], kind: dict[str, Any], *, threads: int | None
) -> None:
    """The two files that Pyserini reads, and beside them how they came about."""
    import faiss

    faiss.write_index(build_index(partial.vectors(), **kind, threads=threads), str(folder / "index"))
    shutil.copyfile(partial.folder / "docid", folder / "docid")
    record = {
        "settings": settings,
        "index": kind,
        "versions": {name: version_of(name) for name in LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "docid")},
    }
    (folder / PASSAGE_INDEX).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
