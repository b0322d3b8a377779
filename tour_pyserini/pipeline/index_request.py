"""What indexing is asked to do, and what it reports."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tour_pyserini.data.beir_texts import BeirTexts, corpus_file
from tour_pyserini.encoders.loading import ENCODER_BACKENDS, PRECISIONS
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.encoders.sentence_model import POOLINGS
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.request import Request, flag_name, option
from tour_pyserini.stores.bm25 import check_language
from tour_pyserini.stores.vector_database import StoreAddress, store_address
from tour_pyserini.support.devices import DTYPES

FIELDS = ("title", "text")

# Groups of flags in --help.
_INPUT, _ENCODER = "input and output", "encoder"
_KIND = "index: exact (flat inner product) without --hnsw, --pq or --factory"
_PHRASE_FLAGS = "phrases: one vector per token; --encoder is then a phrase encoder's folder"

# Flags of one kind of index only, with their defaults.
_PASSAGES: dict[str, Any] = {
    **{"batch_size": None, "truncate_dim": None, "encoder_backend": "auto", "precision": "fp32"},
    **{"M": 256, "efC": 256, "bm25": False, "language": None},
}
_PHRASES: dict[str, Any] = {"kind": "flat", "nlist": 256, "nprobe": 16, "filter_threshold": None}
_PHRASE_KIND = ("kind", "nlist", "nprobe", "pq_m", "pq_nbits")


@dataclass(frozen=True, kw_only=True)
class IndexRequest(Request):
    """Encode a corpus into an index; the fields are the flags of `python -m tour_pyserini.index`.

    Example:
        >>> IndexRequest(corpus="scifact/corpus.jsonl", index="indexes/scifact").faiss_kind()
        {'kind': 'flat'}

    Attributes:
        corpus: a BEIR corpus.jsonl, or a folder that holds one.
        index: the folder of the index, or the address of a collection in a vector database.
        vectors: an exact index of the same corpus and encoder, whose vectors are used instead of encoding again.
        phrases: index phrases: one vector per token.
    """

    corpus: str = option(
        dataclasses.MISSING, "a BEIR corpus.jsonl (_id, title, text), or a folder that holds one", group=_INPUT
    )
    index: str = option(
        dataclasses.MISSING,
        "the folder of the index, made when it is complete; or a collection: milvus:FILE.db?collection=C, "
        "milvus://HOST:19530/C, qdrant:FOLDER?collection=C, qdrant://HOST:6333/C",
        group=_INPUT,
    )
    vectors: str | None = option(
        None,
        "an exact index of the same corpus and encoder, whose vectors are used instead of encoding again",
        group=_INPUT,
        metavar="DIR",
    )
    overwrite: bool = option(False, "replace an existing index, once the new one is complete", group=_INPUT)

    encoder: str = option("default", "default (all-MiniLM-L6-v2), a folder, or a name on the model hub", group=_ENCODER)
    encoder_class: str | None = option(
        None, "Pyserini's keyword: auto, dpr, ance, tct_colbert, contriever, ...", group=_ENCODER
    )
    pooling: str | None = option(
        None,
        "how vectors of tokens become one (default: what the model's files say)",
        group=_ENCODER,
        choices=tuple(POOLINGS),
    )
    l2_norm: bool | None = option(
        None, "vectors of unit norm (default: what the model's files say, or not)", group=_ENCODER
    )
    truncate_dim: int | None = option(
        None, "dimensions kept of each vector (default: what the model's files say, or all)", group=_ENCODER, count=True
    )
    prefix: str | None = option(
        None, 'put before every document, e.g. "passage:", instead of the model\'s own prompt', group=_ENCODER
    )
    fields: tuple[str, ...] = option(
        ("title", "text"), "what is encoded of a document (default: title text)", group=_ENCODER, choices=FIELDS
    )
    max_length: int | None = option(
        None,
        "tokens of a document that are read (default: what the model's files say, or 256)",
        group=_ENCODER,
        count=True,
    )
    encoder_backend: str | None = option(
        None,
        "what runs the encoder (default: auto: onnx where it is faster, else torch)",
        group=_ENCODER,
        choices=ENCODER_BACKENDS,
    )
    precision: str | None = option(
        None, "int8 is faster and gives slightly other vectors (default: fp32)", group=_ENCODER, choices=PRECISIONS
    )
    batch_size: int | None = option(
        None,
        "most documents that torch encodes at once (default: by their tokens; 64 for Pyserini's classes)",
        group=_ENCODER,
        count=True,
    )
    device: str = option("cpu", "cpu, cuda:0, ...", group=_ENCODER)
    dtype: str | None = option(
        None,
        "numbers that the encoder computes with (default: auto: float32 on a CPU, what its files say on a GPU); "
        "with --phrases, of the vectors that are kept: float16 (the default) or float32",
        group=_ENCODER,
        choices=DTYPES,
    )
    trust_remote_code: bool = option(
        False, "run Python code that the encoder's folder or name brings along", group=_ENCODER
    )
    threads: int | None = option(None, "most threads (default: all processors)", group=_ENCODER, count=True)

    hnsw: bool = option(False, "a graph: fast, approximate search", group=_KIND)
    pq: bool = option(False, "product quantisation: small, with approximate vectors", group=_KIND)
    factory: str | None = option(
        None,
        "an index that FAISS makes from its factory string: IVF4096,PQ48, SQ8, IVF1024,SQfp16, ...",
        group=_KIND,
        metavar="STRING",
    )
    M: int | None = option(None, "HNSW: neighbours of a node (default: 256)", group=_KIND, count=True)
    efC: int | None = option(None, "HNSW: candidates considered for them (default: 256)", group=_KIND, count=True)
    pq_m: int = option(192, "PQ: parts of a vector", group=_KIND, count=True)
    pq_nbits: int = option(8, "PQ: bits of a part", group=_KIND, count=True)

    bm25: bool | None = option(
        None, "a BM25 index of the same fields beside the vectors, for search --sparse", group=_KIND
    )
    language: str | None = option(
        None,
        "stemmer and stop words of --bm25: those of en, de, fr, ..., or none (default: en)",
        group=_KIND,
        metavar="CODE",
    )

    phrases: bool = option(False, "index phrases", group=_PHRASE_FLAGS)
    kind: str | None = option(
        None,
        "flat is exact; ivf searches some lists only; ivfpq keeps codes (--pq-m, --pq-nbits) (default: flat)",
        group=_PHRASE_FLAGS,
        choices=("flat", "ivf", "ivfpq"),
    )
    nlist: int | None = option(None, "lists of an inverted file (default: 256)", group=_PHRASE_FLAGS, count=True)
    nprobe: int | None = option(
        None, "lists that are searched, also of --factory IVF... (default: 16)", group=_PHRASE_FLAGS, count=True
    )
    filter_threshold: float | None = option(
        None,
        "filter logits above which tokens are kept; -inf keeps all (default: the encoder's own)",
        group=_PHRASE_FLAGS,
        metavar="X",
    )

    def __post_init__(self) -> None:
        fields = self.fields.split() if isinstance(self.fields, str) else self.fields
        object.__setattr__(self, "fields", tuple(fields))
        super().__post_init__()
        if self.dtype is None:
            object.__setattr__(self, "dtype", "float16" if self.phrases else "auto")
        if self.phrases:
            self._check_phrases()
        else:
            others = {name: value for name, value in _PHRASES.items() if name != "nprobe" or self.factory is None}
            self._settle(_PASSAGES, others, "is for phrases only: add --phrases, or leave it out.")
        if self.language is not None:
            if not self.bm25:
                raise TourError("--language is that of --bm25; add --bm25, or leave it out.")
            check_language(self.language)
        if address := store_address(self.index):
            self._check_collection(address)
        kinds = [flag_name(name) for name in ("hnsw", "pq", "factory") if getattr(self, name)]
        if len(kinds) > 1:
            raise TourError(f"{kinds[0]} and {kinds[1]} are two kinds of index; give one of them.")
        if self.nprobe is not None and self.factory is not None and "IVF" not in self.factory:
            raise TourError(f"--nprobe is for inverted files and {self.factory} is none; leave it out.")

    def faiss_kind(self) -> dict[str, Any]:
        """The kind of FAISS index with its settings, as the functions that build it take them."""
        if self.phrases:
            names = {"flat": _PHRASE_KIND[:1], "ivf": _PHRASE_KIND[:3], "ivfpq": _PHRASE_KIND}[str(self.kind)]
            return {name: getattr(self, name) for name in names}
        if self.hnsw:
            return {"kind": "hnsw", "hnsw_m": self.M, "ef_construction": self.efC}
        if self.pq:
            return {"kind": "pq", "pq_m": self.pq_m, "pq_nbits": self.pq_nbits}
        if self.factory is not None:
            lists = {"nprobe": self.nprobe or _PHRASES["nprobe"]} if "IVF" in self.factory else {}
            return {"kind": "factory", "factory": self.factory, **lists}
        return {"kind": "flat"}

    def encoder_location(self) -> str:
        """A folder by its absolute path, which is valid wherever the index is searched from; a name as it is."""
        folder = Path(self.encoder)
        return str(folder.resolve()) if self.encoder != DEFAULT and folder.is_dir() else self.encoder

    def open_corpus(self) -> BeirTexts:
        """The corpus, whose ids are checked to fit a run file."""
        file = corpus_file(Path(self.corpus))
        if file is None:
            raise TourError(f"there is no corpus {self.corpus}; give a corpus.jsonl, or a folder that holds one.")
        corpus = BeirTexts(file)
        for docid in corpus:
            if docid.split() != [docid]:
                raise TourError(f"{file} has white space in the document id {docid!r}, which no run file can hold.")
        return corpus

    def _check_collection(self, address: StoreAddress) -> None:
        """Refuse flags that a collection of a vector database does not have."""
        for name in ("phrases", "hnsw", "pq", "factory", "overwrite", "language"):
            if getattr(self, name):
                hint = "; say kind=hnsw in its address" if name == "hnsw" else ""
                raise TourError(f"{flag_name(name)} is not for collections such as {address}: leave it out{hint}.")
        if self.bm25 and set(self.fields) != set(FIELDS):
            raise TourError("--bm25 of a collection reads title and text; leave out --fields, or --bm25.")

    def _check_phrases(self) -> None:
        self._settle(_PHRASES, _PASSAGES, "is not for --phrases: leave it out.")
        if "text" not in self.fields:
            raise TourError("--fields title leaves no text that could hold phrases; add text.")
        if self.hnsw or self.pq or self.factory is not None:
            kinds = "--hnsw, --pq and --factory"
            raise TourError(f"{kinds} are kinds of passage indexes; choose one of phrases with --kind.")
        if self.dtype not in ("float16", "float32"):
            raise TourError(f"--dtype of phrases is float16 or float32, not {self.dtype}.")
        for name in ("encoder_class", "pooling", "l2_norm", "prefix"):
            if getattr(self, name) is not None:
                raise TourError(f"{flag_name(name)} is not for --phrases: a phrase encoder's folder decides it.")
        threshold = self.filter_threshold
        if threshold is not None and not math.isfinite(threshold) and threshold != -math.inf:
            raise TourError(f"--filter-threshold must be a number, or -inf to keep all, not {threshold}.")

    def _settle(self, own: dict[str, Any], others: dict[str, Any], refusal: str) -> None:
        """Give own fields their defaults, and refuse those of the other kind of index."""
        for name in others:
            if getattr(self, name) is not None:
                raise TourError(f"{flag_name(name)} {refusal}")
        for name, default in own.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)


@dataclass(frozen=True)
class IndexSummary:
    """What indexing did.

    Attributes:
        index: the folder, or the address of a collection.
        documents: documents in the index.
        vectors: vectors in the index: one per document, or one per token that phrases begin or end with.
        encoded_before: documents that an interrupted run had encoded.
        seconds: how long it took.
    """

    index: Path | str
    documents: int
    vectors: int
    encoded_before: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Documents encoded per second."""
        return (self.documents - self.encoded_before) / self.seconds
