"""What a search is asked to do."""

import logging
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from tour_pyserini.core.config import DEFAULT_METHOD, TourConfig, settings_by_name
from tour_pyserini.data.run_records import is_phrase_index, predictions_path
from tour_pyserini.data.runs import JOINABLE, RUN_FORMATS
from tour_pyserini.data.texts import check_texts
from tour_pyserini.encoders.query_adapter import QueryAdapter
from tour_pyserini.encoders.sentence_model import POOLINGS
from tour_pyserini.errors import TourError
from tour_pyserini.flags import Request, config_from_flags, flag_name, option
from tour_pyserini.searchers.searched_index import check_index
from tour_pyserini.stores.index_folder import CORPUS, has_bm25
from tour_pyserini.stores.signals import check_signal
from tour_pyserini.stores.vector_database import ADDRESSES, store_address
from tour_pyserini.support.devices import BACKENDS, DTYPES, PRECISIONS
from tour_pyserini.support.files import is_stream

log = logging.getLogger(__name__)

QUERY_LENGTH = 256

_input = partial(option, group="what is searched")
_output = partial(option, group="what is written")
_labels = partial(option, group="where labels come from")
_work = partial(option, group="how it works")
_phrases = partial(option, group="phrases, for an index made with --phrases")

# The words that flags may have; a test compares them with the modules that know them, which take time to load.
_CONTEXTS = ("1", "3", "paragraph", "passage")

# Flags that only passage indexes have, flags that only phrase indexes have, and flags of queries that are encoded.
_PASSAGES_ONLY = (
    *("vectors", "sparse", "index2", "encoder2", "run", "ef_search", "remove_query", "filter"),
    *("encoder_class", "pooling", "l2_norm", "truncate_dim", "query_prefix", "max_length", "encoder_backend"),
    *("adapter", "min_relevance"),
)
_VECTORS_ONLY = ("encoder", "encoded_queries", "adapter", "pooling", "query_prefix", "ef_search", "nprobe")
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
        run: first-stage runs, one or several; without an index, what they hold is re-ranked.
        reranker: a cross-encoder's name, folder or object, the address of a service, or `default`.
        config: the method and its settings.
    """

    topics: str = _input(MISSING, "queries: TSV, DPR's, BEIR's; a prebuilt name, irds:NAME, or `demo`", common=True)
    topics_format: str = _input("default", "Pyserini's format of topics")
    qrels: str | None = _input(None, "search only the topics judged here; TREC, BEIR, or irds:NAME", common=True)
    index: str | None = _input(None, f"a folder, a prebuilt name, or a database's collection; {ADDRESSES}", common=True)
    corpus: str | None = _input(None, "passages: corpus.jsonl, .tsv, a folder; prebuilt or irds:NAME", common=True)
    vectors: str | None = _input(None, "exact vectors beside a compressed index: a folder, NAME:... or `encode`")
    sparse: tuple[Any, ...] = _input(
        (),
        "BM25 too: `index` (made with --bm25), or another; an index made with --bm25, a Lucene index folder or a "
        "prebuilt name; every method then searches with both, and `dense` is hybrid search; `none`: not even by the "
        "BM25 of the --index, which the default method uses by itself",
        common=True,
    )
    index2: tuple[str, ...] = _input((), "find candidates by another encoder's index of the same corpus too")
    encoder2: tuple[str, ...] = _input((), "query encoder of each --index2 (default: the encoder that built it)")
    run: tuple[str, ...] = _input(
        (),
        "re-rank what is in a TREC run; it is one more signal; with several, their lists together; without --index, "
        "nothing else is found, and the query moves where --vectors names an index folder with the vectors",
        common=True,
    )
    ef_search: int | None = _input(None, "efSearch of an HNSW index", count=True)
    nprobe: int | None = _input(None, "lists of an inverted file that are searched (default: the index's)", count=True)
    remove_query: bool = _input(False, "never retrieve the document that is the query")
    filter: str | None = _input(None, 'documents that may be found: {"year": {"gte": 2020}}, or a list of docids')

    output: str | None = _output(None, "the run file (default: runs/TOPICS.METHOD.trec)", common=True)
    output_format: str = _output("trec", "format of the run", choices=RUN_FORMATS)
    output_queries: str | None = _output(None, "folder of optimised query vectors, for Pyserini's --encoded-queries")
    trace: str | None = _output(None, "JSON lines: candidates, labels and targets of each query and round")
    trace_vectors: bool = _output(False, "write query vectors into the trace too, for python -m tour_pyserini.page")
    hits: int = _output(1000, "hits per topic", count=True, common=True)
    min_relevance: float | None = _output(None, "least probability of relevance of a hit, by a --config of `tune`")
    tag: str | None = _output(None, "the run's tag (default: Tour-METHOD)")

    shard: str | None = _work(None, "i/n: search part i of n of the topics into RUN.shard-i-of-n, for `merge`")
    ray: str | None = _work(None, "spread batches over a Ray cluster: address, `auto` (one here or a new one), `local`")
    ray_workers: int | None = _work(None, "workers of the Ray cluster (default: one per processor or GPU)", count=True)
    batch_size: int = _work(64, "topics that advance together", count=True)
    threads: int = _work(1, "threads of search", count=True)
    encoder: str | None = _work(None, "query encoder: name or folder; if not given, that of the index", common=True)
    encoder_class: str | None = _work(None, "Pyserini's encoder class; inferred if not given")
    encoder_backend: str = _work("auto", "what runs the encoder; auto: onnx if faster, else torch", choices=BACKENDS)
    tokenizer: str | None = _work(None, "tokenizer, if not the encoder's own")
    pooling: str | None = _work(None, "how token vectors become one (default: as for the index)", choices=POOLINGS)
    l2_norm: bool | None = _work(None, "vectors of unit norm (default: as for the index, or as the model says)")
    truncate_dim: int | None = _work(None, "dimensions kept of each vector (default: as for the index)", count=True)
    query_prefix: str | None = _work(None, "put before each query when it is encoded, instead of the model's prompt")
    max_length: int | None = _work(None, f"tokens of a query (default: {QUERY_LENGTH})", count=True)
    encoded_queries: str | None = _work(None, "vectors of queries instead of an encoder: a folder or a name")
    adapter: str | None = _work(None, "correct the vectors of queries by this file, which `learn` made")
    device: str = _work("cpu", "where models run: cpu, cuda:0, ...", common=True)
    dtype: str = _work("auto", "numbers that models use; auto: float32 on a CPU, as stored on a GPU", choices=DTYPES)
    trust_remote_code: bool = _work(False, "run Python code that a model's folder or name brings along")

    reranker: Any = _labels(  # noqa: RUF009 (a dataclass field; Any hides it)
        "default",
        "cross-encoder: name or folder, `default`, an address; http://HOST/rerank, chat:http://HOST/v1#MODEL; "
        "the default is ms-marco-MiniLM-L-12-v2",
        common=True,
    )
    reranker_threads: int | None = _labels(None, "threads, or requests at a time (default: cores, or 8)", count=True)
    reranker_max_length: int = _labels(512, "tokens of a query and a passage together", count=True)
    reranker_prompt: str | None = _labels(None, "a language model's prompt: a family, a JSON file, or of a chat: TOML")
    instruction: str | None = _labels(None, "what a chat model is to find, instead of its prompt's instruction")
    backend: str = _labels("auto", "what runs a cross-encoder's checkpoint", choices=BACKENDS)
    precision: str | None = _labels(None, "int8 is faster, with other scores (default: its own)", choices=PRECISIONS)
    cache: str | None = _labels(
        None, "a file, or postgresql://HOST/DATABASE (default: scores.sqlite in the cache folder)"
    )
    no_cache: bool = _labels(False, "do not read or write kept labels and query vectors")

    predictions: str | None = _phrases(None, "the phrases as JSON lines (default: RUN.answers.jsonl)")
    unit: str | None = _phrases(None, "what is labelled and ranked (default: phrase)", choices=("phrase", "passage"))
    max_words: int | None = _phrases(None, "most words of a phrase (default: 10)", count=True)
    context: str | None = _phrases(None, "sentences, or more, that are read (default: as trained)", choices=_CONTEXTS)
    title: bool | None = _phrases(None, "whether it reads the title first (default: as trained)")
    separator: str | None = _phrases(None, "between title and text (default: as trained)")

    plugin: tuple[str, ...] = _work((), "Python files that register methods, kinds of re-rankers or vector sources")

    config: TourConfig = field(default_factory=TourConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.config, TourConfig):
            raise TourError(f"config is a TourConfig, not {type(self.config).__name__}: TourConfig.parse reads text.")
        for one, other in (("cache", "no_cache"), ("encoder", "encoded_queries"), ("adapter", "encoded_queries")):
            if getattr(self, one) and getattr(self, other):
                raise TourError(f"{flag_name(one)} and {flag_name(other)} contradict each other; give one of them.")
        for one, other in (("ray_workers", "ray"), ("trace_vectors", "trace")):
            if getattr(self, one) and not getattr(self, other):
                raise TourError(f"{flag_name(one)} changes nothing without {flag_name(other)}; give it too.")
        if self.encoder2 and len(self.encoder2) != len(self.index2):
            raise TourError(
                f"--encoder2 names {len(self.encoder2)} and --index2 {len(self.index2)}; give one encoder for each "
                "index, or none: then the encoders are those that built the indexes."
            )
        if self.shard and self.output_format not in JOINABLE:
            raise TourError(f"shards in the format {self.output_format} cannot be joined: use {', '.join(JOINABLE)}.")
        if self.tag is not None and self.tag.split() != [self.tag]:
            raise TourError(f"--tag {self.tag!r} does not fit a run file: give one word.")
        if self.output_format == "kilt" and self.topics_format != "kilt":
            raise TourError("--output-format kilt adds to KILT's topics: give them with --topics-format kilt.")

    @property
    def has_signals(self) -> bool:
        """Whether something finds candidates beside the index."""
        return bool(self.sparse or self.index2 or self.run)

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

    def completed(self) -> Self:
        """The request with what was not given filled in, and checked against the files it names.

        Topics `demo` bring the embedded collection; the output has a name from topics and method.
        """
        request, method = self, self.config.method
        if self.topics == "demo":
            from tour_pyserini.data import demo_collection

            index, corpus = self.index, self.corpus or str(demo_collection.CORPUS)
            if index is None:
                from tour_pyserini.index import demo_index

                index = str(demo_index())
            request = replace(self, topics=str(demo_collection.QUERIES), corpus=corpus, index=index)
        if not (request.index or request.run):
            raise TourError("--index is missing: give a FAISS index folder or the name of a prebuilt index, or --run.")
        if request.index and (changed := Path(request.index) / CORPUS).is_file():
            # What the index was built from is not what it has.
            if request.corpus and Path(request.corpus) not in (changed, changed.parent):
                log.warning("%s has texts of its own, which are read instead of %s", request.index, request.corpus)
            request = replace(request, corpus=str(changed))
        phrases = is_phrase_index(request.index)
        request._check_index_kind(phrases=phrases)
        if request.config.most_labels and not request.corpus and not store_address(request.index or ""):
            raise TourError(f"--corpus is missing: the method {method} reads the passages it labels.")
        request = request if phrases else replace(request, sparse=request._signals_found())
        if "signal_weight" in request.config.changed() and not request.has_signals:
            raise TourError("--signal-weight changes nothing without --sparse, --index2 or --run; leave it out.")
        request._check_inputs(phrases=phrases)
        output = request.output or f"runs/{_run_name(self.topics)}.{method}.trec"
        answers = str(predictions_path(output)) if phrases and not is_stream(output) else None
        return replace(request, output=output, predictions=request.predictions or answers)

    def _signals_found(self) -> tuple[Any, ...]:
        """What `sparse` stands for: `index` is the index itself, `none` nothing.

        Where it says nothing and there is no other signal, the default method uses the BM25 index that is beside the
        vectors; the others are what their papers say.
        """
        index = str(self.index)
        if self.sparse == ("none",):
            return ()
        if self.has_signals:
            return tuple(index if spec == "index" else spec for spec in self.sparse)
        return (index,) if self.config.method == DEFAULT_METHOD and has_bm25(Path(index)) else ()

    def _check_index_kind(self, *, phrases: bool) -> None:
        """Refuse flags that this kind of index would ignore, or that need an index."""
        if not self.index and (self.sparse or self.index2):
            raise TourError("--sparse and --index2 need an --index; without one, --run names all that is ranked.")
        given = {name.replace("-", "_") for name in super().flags()}
        unfit = dict.fromkeys(
            _PASSAGES_ONLY if phrases else _PHRASES_ONLY, f"{'' if phrases else 'not '}a phrase index"
        )
        if not (self.index or self.vectors):
            unfit |= dict.fromkeys(_VECTORS_ONLY, "ranked without vectors, which --index or --vectors would give")
        for name, kind in unfit.items():
            if name in given:
                raise TourError(f"{flag_name(name)} cannot be used: {self.index or self.run[0]} is {kind}.")
        if phrases and not self.corpus:
            raise TourError("--corpus is missing: a phrase index holds positions of phrases, not their text.")

    def _check_inputs(self, *, phrases: bool) -> None:
        """Report an input that does not exist before anything is read or loaded."""
        searched = self.index or self.vectors  # a run alone needs none
        for index in () if phrases else (*([searched] if searched else []), *self.index2):
            check_index(index)
        for run in self.run:
            if not Path(run).is_file():
                raise TourError(f"run not found: there is no file {run}.")
        if self.corpus:
            check_texts(self.corpus)
        for spec in self.sparse:
            if isinstance(spec, str):
                check_signal(spec)
        if self.adapter:
            QueryAdapter.read(self.adapter)


def _run_name(topics: str) -> str:
    """A run's name from its topics: `scifact` for scifact/queries.jsonl, `nq` for nq.tsv."""
    path = Path(topics)
    first, *others = path.name.split(".")[: -1 if path.suffix else None]
    return ".".join([path.resolve().parent.name if first in ("queries", "topics") else first, *others])
