"""What a search is asked to do."""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tour_pyserini.core.config import DEFAULT_METHOD, TourConfig, settings_by_name
from tour_pyserini.data import demo_collection
from tour_pyserini.data.records import is_phrase_index, predictions_path
from tour_pyserini.data.runs import JOINABLE, RUN_FORMATS
from tour_pyserini.data.texts import check_texts
from tour_pyserini.data.topics import TopicIterator, topics_of
from tour_pyserini.encoders.loading import ENCODER_BACKENDS
from tour_pyserini.encoders.query_adapter import read_adapter
from tour_pyserini.encoders.query_vectors import FILE
from tour_pyserini.encoders.sentence_model import POOLINGS
from tour_pyserini.errors import TourError
from tour_pyserini.flags import Request, config_from_flags, flag_name, option
from tour_pyserini.index import demo_index
from tour_pyserini.phrases.phrase_input import CONTEXTS
from tour_pyserini.rerankers.local_reranker import BACKENDS, PRECISIONS
from tour_pyserini.searchers.searched_index import check_index
from tour_pyserini.stores.index_folder import has_bm25
from tour_pyserini.stores.signals import check_signal
from tour_pyserini.stores.vector_database import store_address
from tour_pyserini.stores.vectors import ORDERS
from tour_pyserini.support.devices import DTYPES
from tour_pyserini.support.files import is_stream, sha256


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `count` parts.

    Example:
        >>> Shard.parse("2/3").name("runs/a.trec")
        'runs/a.trec.shard-2-of-3'
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/3`.

        Raises:
            TourError: if it is not a number from 1 to n, a slash and n.
        """
        match = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", text, re.ASCII)
        if not match or int(match[1]) > int(match[2]):
            raise TourError(f"--shard must be i/n with i from 1 to n, for example 2/3, not {text!r}.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def name(self, path: str | os.PathLike[str]) -> str:
        """The name of this shard of a file or folder."""
        return f"{os.fspath(path)}.shard-{self.number}-of-{self.count}"

    def part_of(self, topics: TopicIterator, batch_size: int) -> TopicIterator:
        """The topics of this shard.

        Raises:
            TourError: if there are fewer batches than shards.
        """
        batches = -(-len(topics) // batch_size)
        if batches < self.count:
            raise TourError(
                f"--shard {self} needs at least {self.count} batches, and {len(topics)} topics are {batches} of "
                f"{batch_size}; give fewer shards, or a smaller --batch-size."
            )
        first, end = (batches * number // self.count for number in (self.number - 1, self.number))
        return topics_of(topics, topics.order[first * batch_size : end * batch_size])


def whole_or_shard(shard: Shard | None, path: Any) -> Any:
    """The name of a file or folder: its own, or that of its shard; None if there is none."""
    return path if shard is None or path is None else shard.name(path)


def output_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of what a search wrote: a file, or a folder of query vectors."""
    return sha256(Path(path) / FILE if os.path.isdir(path) else path)


QUERY_LENGTH = 256

OWN_BM25, NO_SIGNAL = "index", "none"
"""What `--sparse` may be instead of a name: the BM25 index beside the vectors of the index, or no signal at all."""

OUTPUTS = ("output", "output_queries", "trace", "predictions")
"""The fields that name what is written."""

# Groups of flags in --help.
_INPUT, _OUTPUT, _WORK = "what is searched", "what is written", "how it works"
_LABELS, _PHRASES = "where labels come from", "phrases, for an index made with --phrases"

# Flags that only passage indexes have, and flags that only phrase indexes have.
_PASSAGES_ONLY = (
    *("vectors", "order", "sparse", "index2", "encoder2", "ef_search", "remove_query", "encoder_class", "pooling"),
    *("l2_norm", "truncate_dim", "query_prefix", "max_length", "encoder_backend", "adapter"),
)
_PHRASES_ONLY = ("predictions", "unit", "max_words", "context", "title", "separator")


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Request):
    """Search topics and write a run; the fields are the flags of `python -m tour_pyserini.search`.

    Example:
        >>> SearchRequest(topics="scifact/queries.jsonl", index="indexes/scifact", config=TourConfig(budget=30)).hits
        1000

    Attributes:
        topics: a file of topics, a Pyserini name, or `demo`.
        index: a folder of an index, the name of a prebuilt one, or the address of a collection in a vector database.
        corpus: the passages: a BEIR file, a Lucene index or a prebuilt name.
        sparse: further signals that find candidates: indexes with BM25, Lucene indexes, or functions
            `(queries, k) -> docids, scores`; one or several.
        index2: further FAISS indexes of the same documents; one or several.
        encoder2: their query encoders, one for each.
        reranker: a cross-encoder's name, folder or object, the address of a service, or `default`.
        config: the method and its settings.
    """

    topics: str = option(
        dataclasses.MISSING,
        "topics: a file (TSV, DPR, BEIR queries.jsonl), a Pyserini name, or `demo`",
        group=_INPUT,
    )
    topics_format: str = option("default", "Pyserini's format of topics", group=_INPUT, metavar="FORMAT")
    qrels: str | None = option(
        None, "search only the topics judged in this TREC or BEIR file", group=_INPUT, metavar="FILE"
    )
    index: str | None = option(
        None,
        "FAISS index folder, the name of a prebuilt index, or a collection: milvus:FILE.db?collection=C, "
        "milvus://HOST:19530/C, qdrant:FOLDER?collection=C, qdrant://HOST:6333/C",
        group=_INPUT,
        metavar="DIR",
    )
    corpus: str | None = option(
        None, "passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name", group=_INPUT, metavar="FILE"
    )
    vectors: str | None = option(
        None,
        "exact vectors for a compressed index: an encoded corpus, NAME:... of a registered source, or `encode`",
        group=_INPUT,
        metavar="DIR",
    )
    order: str | None = option(
        None,
        "order of a compressed index's hits: exact, by --vectors, or the index's own (default: exact for every method "
        "where --vectors is an encoded corpus)",
        group=_INPUT,
        choices=ORDERS,
    )
    sparse: tuple[Any, ...] = option(
        (),
        "find candidates by BM25 too: an index made with --bm25, `index` for the --index itself, a Lucene index folder "
        "or a prebuilt name; every method then searches with both, and `dense` is hybrid search; `none`: not even by "
        "the BM25 of the --index, which the default method uses by itself",
        group=_INPUT,
        metavar="DIR",
    )
    index2: tuple[str, ...] = option(
        (),
        "find candidates with another encoder's index of the same corpus too: a folder or a prebuilt name",
        group=_INPUT,
        metavar="DIR",
    )
    encoder2: tuple[str, ...] = option(
        (),
        "query encoder of each --index2; if not given, the encoder that built it",
        group=_INPUT,
        metavar="NAME",
    )
    ef_search: int | None = option(None, "efSearch of an HNSW index", group=_INPUT, count=True)
    nprobe: int | None = option(
        None, "how many lists of an inverted file are searched (default: the index's own)", group=_INPUT, count=True
    )
    remove_query: bool = option(False, "never retrieve the document that is the query", group=_INPUT)

    output: str | None = option(None, "the run file (default: runs/TOPICS.METHOD.trec)", group=_OUTPUT, metavar="RUN")
    output_format: str = option("trec", "format of the run", group=_OUTPUT, choices=RUN_FORMATS)
    output_queries: str | None = option(
        None, "optimised query vectors, for Pyserini's --encoded-queries", group=_OUTPUT, metavar="DIR"
    )
    trace: str | None = option(
        None, "JSON lines: candidates, labels and targets of each query and round", group=_OUTPUT, metavar="FILE"
    )
    trace_vectors: bool = option(
        False, "write query vectors into the trace too, for python -m tour_pyserini.page", group=_OUTPUT
    )
    hits: int = option(1000, "hits per topic", group=_OUTPUT, count=True)
    tag: str | None = option(None, "the run's tag (default: Tour-METHOD)", group=_OUTPUT)

    shard: str | None = option(
        None,
        "search part i of n of the topics; RUN.shard-i-of-n is written, and python -m tour_pyserini.merge joins them",
        group=_WORK,
        metavar="i/n",
    )
    ray: str | None = option(
        None,
        "spread batches over the workers of a Ray cluster: its address, `auto` (the one that runs here, or a new one) "
        "or `local` (a new one)",
        group=_WORK,
        metavar="ADDRESS",
    )
    ray_workers: int | None = option(
        None, "workers of the Ray cluster (default: one for each processor, or GPU)", group=_WORK, count=True
    )
    batch_size: int = option(64, "topics that advance together", group=_WORK, count=True)
    threads: int = option(1, "threads of search", group=_WORK, count=True)
    encoder: str | None = option(
        None,
        "query encoder: a name, a folder, or `default`; if not given, the encoder that built the index",
        group=_WORK,
        metavar="NAME",
    )
    encoder_class: str | None = option(
        None, "Pyserini's encoder class; inferred if not given", group=_WORK, metavar="CLASS"
    )
    encoder_backend: str = option(
        "auto",
        "what runs the query encoder; auto: onnx where it is faster, else torch; their vectors differ by rounding",
        group=_WORK,
        choices=ENCODER_BACKENDS,
    )
    tokenizer: str | None = option(None, "tokenizer, if not the encoder's own", group=_WORK, metavar="NAME")
    pooling: str | None = option(
        None,
        "how vectors of tokens become one (default: as for the index, or what the model's files say)",
        group=_WORK,
        choices=tuple(POOLINGS),
    )
    l2_norm: bool | None = option(
        None, "vectors of unit norm (default: as for the index, or what the model's files say)", group=_WORK
    )
    truncate_dim: int | None = option(
        None, "dimensions kept of each vector (default: as for the index)", group=_WORK, count=True
    )
    query_prefix: str | None = option(
        None, "put before each query when it is encoded, instead of the model's own prompt", group=_WORK, metavar="TEXT"
    )
    max_length: int | None = option(None, f"tokens of a query (default: {QUERY_LENGTH})", group=_WORK, count=True)
    encoded_queries: str | None = option(
        None, "vectors of queries instead of an encoder: a folder or a name", group=_WORK, metavar="DIR"
    )
    adapter: str | None = option(
        None, "correct the vectors of queries by this file, which `learn` made", group=_WORK, metavar="FILE"
    )
    device: str = option("cpu", "device of encoder and re-ranker: cpu, cuda:0, ...", group=_WORK)
    dtype: str = option(
        "auto",
        "numbers that models compute with (not ONNX re-rankers); auto: float32 on a CPU, as stored on a GPU",
        group=_WORK,
        choices=DTYPES,
    )
    trust_remote_code: bool = option(False, "run Python code that a model's folder or name brings along", group=_WORK)

    reranker: Any = option(  # noqa: RUF009 (a dataclass field; Any hides it)
        "default",
        "a cross-encoder's name or folder, http://HOST/rerank, or `default` (ms-marco-MiniLM-L-12-v2)",
        group=_LABELS,
    )
    reranker_threads: int | None = option(
        None,
        "threads of the re-ranker (default: all cores), or requests to a service at a time (8)",
        group=_LABELS,
        count=True,
    )
    reranker_max_length: int = option(512, "tokens of a query and a passage together", group=_LABELS, count=True)
    reranker_prompt: str | None = option(
        None,
        "what a language model reads as a re-ranker, if its files do not say it: a family's name or a JSON file",
        group=_LABELS,
        metavar="PROMPT",
    )
    backend: str = option("auto", "what runs a cross-encoder's checkpoint", group=_LABELS, choices=BACKENDS)
    precision: str | None = option(
        None,
        "int8 is faster and gives other scores (default: the model's own)",
        group=_LABELS,
        choices=PRECISIONS,
    )
    cache: str | None = option(
        None,
        "the score cache: a file (default: scores.sqlite in the cache folder), or postgresql://HOST/DATABASE, which "
        "machines can share",
        group=_LABELS,
        metavar="FILE",
    )
    no_cache: bool = option(False, "do not read or write kept labels and query vectors", group=_LABELS)

    predictions: str | None = option(
        None, "the phrases as JSON lines (default: RUN.answers.jsonl)", group=_PHRASES, metavar="FILE"
    )
    unit: str | None = option(
        None, "what is labelled and ranked (default: phrase)", group=_PHRASES, choices=("phrase", "passage")
    )
    max_words: int | None = option(None, "most words of a phrase (default: 10)", group=_PHRASES, count=True)
    context: str | None = option(
        None,
        "what the re-ranker reads: 1 or 3 sentences, the paragraph, or the passage without marks "
        "(default: what it was trained on, or 3)",
        group=_PHRASES,
        choices=CONTEXTS,
    )
    title: bool | None = option(
        None, "whether it reads the title first (default: as it was trained, or yes)", group=_PHRASES
    )
    separator: str | None = option(
        None,
        'between title and text, e.g. " </s> " (default: as it was trained, or a blank)',
        group=_PHRASES,
        metavar="TEXT",
    )

    plugin: tuple[str, ...] = option(
        (), "Python files that register methods, kinds of re-rankers or vector sources", group=_WORK, metavar="FILE"
    )

    config: TourConfig = field(default_factory=TourConfig)

    def __post_init__(self) -> None:
        for name in ("sparse", "index2", "encoder2", "plugin"):
            object.__setattr__(self, name, _listed(getattr(self, name)))
        super().__post_init__()
        for name in ("index2", "encoder2"):
            if unfit := [spec for spec in getattr(self, name) if not isinstance(spec, str)]:
                raise TourError(f"{flag_name(name)} must be text, not {unfit[0]!r}.")
        if self.encoder2 and len(self.encoder2) != len(self.index2):
            raise TourError(
                f"--encoder2 names {len(self.encoder2)} and --index2 {len(self.index2)}; give one encoder for each "
                "index, or none: then the encoders are those that built the indexes."
            )
        if not isinstance(self.config, TourConfig):
            raise TourError(f"config is a TourConfig, not {type(self.config).__name__}: TourConfig.parse reads text.")
        if self.cache and self.no_cache:
            raise TourError("--cache and --no-cache contradict each other; give one of them.")
        if self.shard is not None:
            Shard.parse(self.shard)
            if self.output_format not in JOINABLE:
                raise TourError(
                    f"shards in the format {self.output_format} cannot be joined: use one of {', '.join(JOINABLE)}."
                )
        if self.ray_workers and not self.ray:
            raise TourError("--ray-workers says how many workers Ray starts; give --ray too.")
        if self.encoder and self.encoded_queries:
            raise TourError("--encoder and --encoded-queries both give the queries' vectors; give one of them.")
        if self.adapter and self.encoded_queries:
            raise TourError("--adapter corrects vectors of an encoder, not --encoded-queries; give one of them.")
        if self.trace_vectors and not self.trace:
            raise TourError("--trace-vectors adds to the trace; give --trace FILE too.")
        if self.tag is not None and self.tag.split() != [self.tag]:
            raise TourError(f"--tag {self.tag!r} does not fit a run file: give one word.")
        if self.output_format == "kilt" and self.topics_format != "kilt":
            raise TourError("--output-format kilt adds to KILT's topics: give them with --topics-format kilt.")
        if self.context == "passage" and self.separator is not None:
            raise TourError("--separator cannot be used with --context passage, which reads passages as they are.")

    @property
    def has_signals(self) -> bool:
        """Whether something finds candidates beside the index."""
        return bool(self.sparse or self.index2)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The request that flags describe: those of the fields, `method`, `preset`, `config` and every setting."""
        values = {name.replace("-", "_"): value for name, value in flags.items()}
        own = {"method", "preset", "config", "prf_depth", "prf_method", "rocchio_topk", *settings_by_name()}
        config = config_from_flags({name: value for name, value in values.items() if name in own})
        return super().from_flags({**{n: value for n, value in values.items() if n not in own}, "config": config})

    def flags(self) -> dict[str, Any]:
        """The fields and settings that differ from their defaults, by the flags' names."""
        flags = {name: value for name, value in super().flags().items() if name != "config"}
        settings = {name.replace("_", "-"): value for name, value in self.config.changed().items()}
        return {**flags, "method": self.config.method, **settings}

    def check_index_kind(self, *, phrases: bool) -> None:
        """Refuse flags that this kind of index would ignore."""
        defaults = {item.name: item.default for item in dataclasses.fields(self)}
        for name in _PASSAGES_ONLY if phrases else _PHRASES_ONLY:
            if getattr(self, name) != defaults[name]:
                kind = "a phrase index" if phrases else "not a phrase index"
                raise TourError(f"{flag_name(name)} cannot be used: {self.index} is {kind}.")
        if phrases and not self.corpus:
            raise TourError("--corpus is missing: a phrase index holds positions of phrases, not their text.")


def _listed(value: Any) -> tuple[Any, ...]:
    """One value, several or None as a tuple; paths become text."""
    values = () if value is None else value if isinstance(value, list | tuple) else (value,)
    return tuple(os.fspath(each) if isinstance(each, os.PathLike) else each for each in values)


def completed(request: SearchRequest) -> SearchRequest:
    """The request with what was not given filled in, and checked against its index.

    Topics `demo` bring the embedded collection; the output has a name from topics and method.
    """
    name = _run_name(request.topics)
    if request.topics == "demo":
        request = replace(
            request,
            topics=str(demo_collection.QUERIES),
            corpus=request.corpus or str(demo_collection.CORPUS),
            index=request.index or str(demo_index()),
        )
    if not request.index:
        raise TourError("--index is missing: give a FAISS index folder or the name of a prebuilt index.")
    phrases = is_phrase_index(request.index)
    request.check_index_kind(phrases=phrases)
    method = request.config.method
    if request.config.most_labels and not request.corpus and not store_address(request.index):
        raise TourError(f"--corpus is missing: the method {method} reads the passages it labels.")
    if not phrases:
        request = replace(request, sparse=sparse_signals(request))
        if "signal_weight" in request.config.changed() and not request.has_signals:
            raise TourError("--signal-weight changes nothing without --sparse or --index2; leave it out.")
    output = request.output or f"runs/{name}.{method}.trec"
    predictions = request.predictions or (str(predictions_path(output)) if phrases and not is_stream(output) else None)
    return replace(request, output=output, predictions=predictions)


def sparse_signals(request: SearchRequest) -> tuple[Any, ...]:
    """What `--sparse` stands for: the index itself, nothing, or what is named.

    Where it says nothing and there is no other signal, the default method uses the BM25 index that is beside the
    vectors; the others are what their papers say.
    """
    index = str(request.index)
    if request.sparse == (NO_SIGNAL,):
        return ()
    if request.sparse or request.index2:
        return tuple(index if spec == OWN_BM25 else spec for spec in request.sparse)
    return (index,) if request.config.method == DEFAULT_METHOD and has_bm25(Path(index)) else ()


def check_inputs(request: SearchRequest) -> None:
    """Report an input that does not exist before anything is read or loaded."""
    assert request.index is not None
    if not is_phrase_index(request.index):
        check_index(request.index)
    if request.corpus:
        check_texts(request.corpus)
    for spec in request.sparse:
        if isinstance(spec, str):
            check_signal(spec)
    for index in request.index2:
        check_index(index)
    if request.adapter:
        read_adapter(request.adapter)


def _run_name(topics: str) -> str:
    """A run's name from its topics: `scifact` for scifact/queries.jsonl, `nq` for nq.tsv."""
    path = Path(topics)
    first, *others = path.name.split(".")[: -1 if path.suffix else None]
    return ".".join([path.resolve().parent.name if first in ("queries", "topics") else first, *others])
