"""Encode a corpus into a phrase index: `python -m tour_pyserini.index --phrases`."""

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.data.beir_texts import BeirTexts
from tour_pyserini.data.documents import Document
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.index_inputs import findable, open_corpus
from tour_pyserini.stores.phrases.partial_tokens import PartialTokens
from tour_pyserini.stores.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.stores.phrases.phrase_index_writing import check_fit, write_phrase_index
from tour_pyserini.support.files import atomic_folder, check_folder, sha256

CHUNK = 64  # passages that are encoded and saved together


def index_phrases(args: argparse.Namespace) -> None:
    """Encode, build, report."""
    started = time.perf_counter()
    folder: Path = args.index
    _check_flags(args)
    check_folder(folder, overwrite=args.overwrite)
    corpus = open_corpus(args.corpus)
    encoder = phrase_index_encoder(args)
    settings, kind = phrase_index_settings(args, corpus, encoder), phrase_index_kind(args)
    check_fit(None, encoder.dimension, **kind)
    with PartialTokens(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        # Whoever worked here before may have finished the index since the first look.
        check_folder(folder, overwrite=args.overwrite)
        there = partial.done
        if args.vectors is None:
            _encode(args, corpus, encoder, partial)
        else:
            _copy(args.vectors, settings, partial)
        if not partial.count:
            raise TourError(f"no passage of {corpus.path} has a word; there is nothing to index.")
        with atomic_folder(folder, overwrite=args.overwrite) as new:
            write_phrase_index(new, partial, settings, kind, threads=args.threads)
        count = partial.count
        partial.discard()
    seconds = time.perf_counter() - started
    sys.stderr.write(
        f"{folder}: {count} token vectors of {len(corpus)} passages ({there} were encoded before) in {seconds:.1f} s, "
        f"{(len(corpus) - there) / seconds:.1f} passages per second\n"
    )


_KIND = ("kind", "nlist", "nprobe", "pq_m", "pq_nbits")


def _check_flags(args: argparse.Namespace) -> None:
    if args.hnsw or args.pq:
        raise TourError("--hnsw and --pq are kinds of passage indexes; choose one of phrases with --kind.")
    for name in ("encoder_class", "pooling", "l2_norm", "prefix"):
        if getattr(args, name) is not None:
            raise TourError(f"--{name.replace('_', '-')} is not for --phrases: a phrase encoder's folder says it all.")


def phrase_index_encoder(args: argparse.Namespace) -> PhraseEncoder:
    """The encoder as it reads passages here."""
    encoder = load_phrase_encoder(args.encoder, device=args.device)
    if args.max_length is not None:
        stride = min(encoder.settings.stride, args.max_length // 2)
        read = dataclasses.replace(encoder.settings, max_length=args.max_length, stride=stride)
        encoder = PhraseEncoder(encoder.model, encoder.tokenizer, read, device=args.device)
    if args.filter_threshold is not None:
        if not math.isfinite(args.filter_threshold) and args.filter_threshold != -math.inf:
            raise TourError(f"--filter-threshold must be a number, or -inf to keep all, not {args.filter_threshold}.")
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=args.filter_threshold)
    return encoder


def phrase_index_settings(args: argparse.Namespace, corpus: BeirTexts, encoder: PhraseEncoder) -> dict[str, Any]:
    """All that the vectors depend on."""
    threshold = encoder.settings.filter_threshold
    return {
        "corpus_sha256": sha256(corpus.path),
        "documents": len(corpus),
        "encoder": findable(args.encoder),
        "encoder_fingerprint": encoder.fingerprint(),
        "titles": "title" in args.fields,
        "max_length": encoder.settings.max_length,
        "stride": encoder.settings.stride,
        "filter_threshold": None if math.isinf(threshold) else threshold,
        "dimension": encoder.dimension,
        "dtype": args.dtype,
        "itemsize": np.dtype(args.dtype).itemsize,
        "chunk": CHUNK,
    }


def phrase_index_kind(args: argparse.Namespace) -> dict[str, Any]:
    """The kind of index with its settings, as `build_token_index` takes them."""
    names = {"flat": _KIND[:1], "ivf": _KIND[:3], "ivfpq": _KIND}[args.kind]
    return {name: getattr(args, name) for name in names}


def _encode(args: argparse.Namespace, corpus: BeirTexts, encoder: PhraseEncoder, partial: PartialTokens) -> None:
    from tqdm import tqdm

    documents: Iterable[Document] = islice(corpus.records(), partial.done, None)
    if "title" not in args.fields:
        documents = (document._replace(title="") for document in documents)
    # disable=None: a bar on a terminal alone.
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=None) as bar:
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK)):
            tokens = encoder.passages(chunk, first=partial.done, dtype=args.dtype)
            rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
            partial.append([document.docid for document in chunk], rows, vectors)
            bar.update(len(chunk))


def _copy(folder: Path, settings: Mapping[str, Any], partial: PartialTokens) -> None:
    """Take the tokens of an index that was made with the same settings, its vectors as they are or shortened."""
    made = read_settings(folder)
    for name, value in settings.items():
        if name not in ("dtype", "itemsize", "chunk") and made.get(name) != value:
            raise TourError(
                f"the vectors in {folder} were made with another {name}; leave out --vectors, or change it."
            )
    if made["itemsize"] < settings["itemsize"]:
        raise TourError(f"the vectors in {folder} are {made['dtype']}; take them as they are with --dtype.")
    index = open_phrase_index(folder)
    passages = np.ascontiguousarray(index.rows["passage"])
    for start in range(partial.done, len(index.docids), CHUNK):
        first, last = np.searchsorted(passages, [start, start + CHUNK])
        vectors = index.vectors[first:last].astype(settings["dtype"])
        partial.append(index.docids[start : start + CHUNK], index.rows[first:last], vectors)
