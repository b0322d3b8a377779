"""Encoding a corpus into a phrase index."""

import dataclasses
import math
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
from tour_pyserini.pipeline.index_request import IndexRequest, IndexSummary
from tour_pyserini.stores.phrases.partial_tokens import PartialTokens
from tour_pyserini.stores.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.stores.phrases.phrase_index_writing import check_fit, write_phrase_index
from tour_pyserini.support.files import atomic_folder, check_folder
from tour_pyserini.support.memo import content_hash

CHUNK = 64  # passages that are encoded and saved together


def build_phrase_index(request: IndexRequest, corpus: BeirTexts, *, progress: bool = False) -> IndexSummary:
    """Encode the tokens of a corpus and build their index."""
    started = time.perf_counter()
    folder, kind = Path(request.index), request.faiss_kind()
    encoder = phrase_index_encoder(request)
    settings = phrase_settings(request, corpus, encoder)
    check_fit(None, encoder.dimension, **kind)
    with PartialTokens(folder.with_name(f"{folder.name}.partial"), settings) as partial:
        # Another process that worked here may have finished the index since the first check.
        check_folder(folder, overwrite=request.overwrite)
        before = partial.done
        if request.vectors is None:
            _encode(request, corpus, encoder, partial, progress=progress)
        else:
            _copy(Path(request.vectors), settings, partial)
        if not partial.count:
            raise TourError(f"no passage of {corpus.path} has a word; there is nothing to index.")
        with atomic_folder(folder, overwrite=request.overwrite) as new:
            write_phrase_index(new, partial, settings, kind, threads=request.threads)
        count = partial.count
        partial.discard()
    return IndexSummary(folder, len(corpus), count, before, time.perf_counter() - started)


def phrase_index_encoder(request: IndexRequest) -> PhraseEncoder:
    """The encoder, with the request's length and filter threshold."""
    encoder = load_phrase_encoder(request.encoder, device=request.device)
    if request.max_length is not None:
        stride = min(encoder.settings.stride, request.max_length // 2)
        read = dataclasses.replace(encoder.settings, max_length=request.max_length, stride=stride)
        encoder = PhraseEncoder(encoder.model, encoder.tokenizer, read, device=request.device)
    if request.filter_threshold is not None:
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=request.filter_threshold)
    return encoder


def phrase_settings(request: IndexRequest, corpus: BeirTexts, encoder: PhraseEncoder) -> dict[str, Any]:
    """Everything that the vectors depend on."""
    threshold = encoder.settings.filter_threshold
    return {
        "corpus_sha256": content_hash(corpus.plain),
        "documents": len(corpus),
        "encoder": request.encoder_location(),
        "encoder_fingerprint": encoder.fingerprint(),
        "titles": "title" in request.fields,
        "max_length": encoder.settings.max_length,
        "stride": encoder.settings.stride,
        "filter_threshold": None if math.isinf(threshold) else threshold,
        "dimension": encoder.dimension,
        "dtype": request.dtype,
        "itemsize": np.dtype(request.dtype).itemsize,
        "chunk": CHUNK,
    }


def _encode(
    request: IndexRequest, corpus: BeirTexts, encoder: PhraseEncoder, partial: PartialTokens, *, progress: bool
) -> None:
    from tqdm import tqdm

    assert request.dtype is not None
    documents: Iterable[Document] = islice(corpus.records(), partial.done, None)
    if "title" not in request.fields:
        documents = (document._replace(title="") for document in documents)
    hidden = None if progress else True  # None: a bar on a terminal only
    with tqdm(total=len(corpus), initial=partial.done, unit="doc", desc="encoding", disable=hidden) as bar:
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK)):
            tokens = encoder.passages(chunk, first=partial.done, dtype=request.dtype)
            rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
            partial.append([document.docid for document in chunk], rows, vectors)
            bar.update(len(chunk))


def _copy(folder: Path, settings: Mapping[str, Any], partial: PartialTokens) -> None:
    """Use the tokens of an index that was made with the same settings; vectors may be converted to float16."""
    made = read_settings(folder)
    for name, value in settings.items():
        if name not in ("dtype", "itemsize", "chunk") and made.get(name) != value:
            raise TourError(
                f"the vectors in {folder} were made with another {name}; leave out --vectors, or change it."
            )
    if made["itemsize"] < settings["itemsize"]:
        raise TourError(f"the vectors in {folder} are {made['dtype']}; use the same --dtype.")
    index = open_phrase_index(folder)
    passages = np.ascontiguousarray(index.rows["passage"])
    for start in range(partial.done, len(index.docids), CHUNK):
        first, last = np.searchsorted(passages, [start, start + CHUNK])
        vectors = index.vectors[first:last].astype(settings["dtype"])
        partial.append(index.docids[start : start + CHUNK], index.rows[first:last], vectors)
