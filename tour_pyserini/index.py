"""Encode a corpus into a FAISS index: `python -m tour_pyserini.index`."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

from tour_pyserini.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.files import sha256
from tour_pyserini.index_arguments import index_parser
from tour_pyserini.plugs.encode_documents import encode_documents
from tour_pyserini.plugs.encoders import encoder_fingerprint, load_document_encoder
from tour_pyserini.retrieval.building import build_index
from tour_pyserini.retrieval.index_folder import check_place, folder_whole
from tour_pyserini.retrieval.partial_vectors import PartialVectors
from tour_pyserini.texts.beir import BeirTexts, corpus_file
from tour_pyserini.texts.document import Document

CHUNK = 1024  # documents that are encoded and saved together
LIBRARIES = ("pyserini", "faiss-cpu", "torch", "transformers", "numpy")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, encode, build, report."""
    args = index_parser().parse_args(argv)
    started = time.perf_counter()
    folder: Path = args.index
    check_place(folder, overwrite=args.overwrite)
    corpus = _open_corpus(args.corpus)
    _use_threads(args.threads)
    encoder = load_document_encoder(
        args.encoder,
        encoder_class=args.encoder_class,
        pooling=args.pooling,
        l2_norm=args.l2_norm,
        prefix=args.prefix,
        device=args.device,
    )
    settings = _settings(args, corpus, encoder)
    with PartialVectors(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        there = partial.done
        _encode(args, corpus, encoder, partial)
        with folder_whole(folder) as new:
            _write(new, partial, settings, args)
        partial.discard()
    seconds = time.perf_counter() - started
    sys.stderr.write(
        f"{folder}: {len(corpus)} documents ({there} were encoded before) in {seconds:.1f} s, "
        f"{(len(corpus) - there) / seconds:.1f} documents per second\n"
    )


def _open_corpus(path: Path) -> BeirTexts:
    file = corpus_file(path)
    if file is None:
        raise TourError(f"there is no corpus {path}; give a corpus.jsonl, or a folder that holds one.")
    corpus = BeirTexts(file)
    for docid in corpus:
        if docid.split() != [docid]:
            raise TourError(f"{file} has white space in the document id {docid!r}, which no run file can hold.")
    return corpus


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _settings(args: argparse.Namespace, corpus: BeirTexts, encoder: Any) -> dict[str, Any]:
    """All that the vectors depend on."""
    probe = encode_documents(encoder, [Document("probe", "", "dimension")], max_length=args.max_length)
    return {
        "corpus_sha256": sha256(corpus.path),
        "documents": len(corpus),
        "fields": sorted(set(args.fields)),
        "encoder": args.encoder,
        "encoder_fingerprint": encoder_fingerprint(args.encoder),
        "encoder_class": type(encoder).__name__,
        "pooling": getattr(encoder, "pooling", None),
        "l2_norm": getattr(encoder, "l2_norm", None),
        "prefix": args.prefix,
        "max_length": args.max_length,
        "dimension": probe.shape[1],
        "chunk": CHUNK,
    }


def _encode(args: argparse.Namespace, corpus: BeirTexts, encoder: Any, partial: PartialVectors) -> None:
    from tqdm import tqdm

    documents = (_only(args.fields, document) for document in islice(corpus.records(), partial.done, None))
    # disable=None: a bar on a terminal alone.
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=None) as bar:
        for chunk in _chunks(documents):
            vectors = encode_documents(encoder, chunk, batch_size=args.batch_size, max_length=args.max_length)
            partial.append([document.docid for document in chunk], vectors)
            bar.update(len(chunk))


def _only(fields: Sequence[str], document: Document) -> Document:
    title = document.title.strip() if "title" in fields else ""
    return Document(document.docid, title, document.text.strip() if "text" in fields else "")


def _chunks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while chunk := list(islice(documents, CHUNK)):
        yield chunk


def _write(folder: Path, partial: PartialVectors, settings: dict[str, Any], args: argparse.Namespace) -> None:
    """The two files that Pyserini reads, and beside them how they came about."""
    import faiss

    kind: dict[str, Any] = {"kind": "hnsw" if args.hnsw else "pq" if args.pq else "flat"}
    if args.hnsw:
        kind |= {"hnsw_m": args.M, "ef_construction": args.efC}
    elif args.pq:
        kind |= {"pq_m": args.pq_m, "pq_nbits": args.pq_nbits}
    faiss.write_index(build_index(partial.vectors(), **kind, threads=args.threads), str(folder / "index"))
    shutil.copyfile(partial.folder / "docid", folder / "docid")
    record = {
        "settings": settings,
        "index": kind,
        "versions": {name: _version(name) for name in LIBRARIES},
        "sha256": {name: sha256(folder / name) for name in ("index", "docid")},
    }
    (folder / "tour-index.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    run(main)
