"""A re-ranker whose model runs in this process: its options, its checkpoint, its tokens of pairs, and its batches."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker, Reranker
from tour_pyserini.support.devices import DTYPES, on_device
from tour_pyserini.support.model_files import (
    CallLock,
    Row,
    checkpoint_files,
    chosen_dtype,
    encodable,
    fingerprint,
    length_sorted_batches,
    quiet_reading,
    read_config,
    read_tokenizer,
    token_cutter,
    usable_length,
)
from tour_pyserini.support.packages import import_optional

SHORTEST_INPUT = 8
BACKENDS = ("auto", "onnx", "torch")
PRECISIONS = ("fp32", "int8")
CHUNK = 512
"""Pairs that are tokenised at a time: enough for batches of similar lengths, few enough to limit memory."""
POLICY = "pair, passage cut first"
"""How a pair is cut. Part of the fingerprint, because another truncation gives other scores."""
PASSAGE_FIRST, LONGEST_FIRST = "only_second", "longest_first"
"""Truncation strategies, as tokenizers call them."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Names of the arrays of a tokenised pair."""
PROBES = (
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("far?", "No."),
    ("of the", "sea " * 4096),
)
"""Pairs on which a faster way is compared with the plain way; the last one is cut to the maximum length."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a re-ranker is run; `load_reranker` describes the fields."""

    max_length: int = 512
    batch_size: int | None = None
    device: str = "cpu"
    threads: int | None = None
    backend: str = "auto"
    precision: str | None = None
    dtype: str = "auto"
    prompt: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        for what, value, least in (
            ("maximum length in tokens", self.max_length, SHORTEST_INPUT),
            ("batch size", self.batch_size, 1),
            ("number of threads", self.threads, 1),
        ):
            if value is not None and value < least:
                raise TourError(f"the {what} is {value}; give {least} or more.")
        for what, word, words in (
            ("back end", self.backend, BACKENDS),
            ("dtype", self.dtype, DTYPES),
            ("precision", self.precision, (None, *PRECISIONS)),
        ):
            if word not in words:
                raise TourError(f"unknown {what} {word!r}; give one of {', '.join(filter(None, words))}.")
        if self.precision == "int8" and (self.backend == "torch" or self.device != "cpu"):
            raise TourError("the precision int8 needs the back end onnx on a cpu; use fp32 elsewhere.")
        if self.dtype in ("bfloat16", "float16") and (self.backend == "onnx" or self.precision is not None):
            raise TourError(
                f"the dtype {self.dtype} needs the back end torch and no precision ({', '.join(PRECISIONS)}); "
                "leave one of them out."
            )

    def check_backends(self, backends: Collection[str], name: str) -> None:
        """Refuse a back end that cannot run a model.

        Args:
            backends: those that can run it; none if it needs none.
            name: what the user called the model.
        """
        wanted = "onnx" if self.precision == "int8" else self.backend
        if wanted in ("auto", *backends):
            return
        precision = " in int8" if self.precision == "int8" else ""
        instead = f"only by {' or '.join(backends)}" if backends else "because it needs no back end; choose none"
        raise TourError(f"{name} cannot be run by {wanted}{precision}, {instead}.")

    @property
    def wanted_dtype(self) -> str:
        """The dtype that is asked for: ONNX graphs of checkpoints, and both precisions, are of float32."""
        return "float32" if self.backend == "onnx" or self.precision is not None else self.dtype

    @property
    def token_budget(self) -> int:
        """Padded tokens per batch. A CPU is fastest with small batches of similar lengths, a GPU with large ones.

        Measured with torch on one AVX-512 core, MiniLM-L-12, 64 pairs of 40-250 tokens: 256, 1,024 and 4,096 tokens
        take 5.05, 4.97 and 5.36 s.
        """
        if self.batch_size is not None:
            return self.batch_size * self.max_length
        return 1024 if self.device == "cpu" else 65536


class Kind(NamedTuple):
    """A built-in kind of model folder; `RerankerKind` describes what stands here."""

    accepts: Callable[[Path], object]
    load: Callable[..., Reranker]
    BACKENDS: tuple[str, ...] = ("torch",)
    DTYPES: tuple[str, ...] = DTYPES
    TAKES_PROMPT: bool = False


class Tokens(Protocol):
    """A tokenizer of pairs."""

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        ...


class Runner(Protocol):
    """A loaded model: it computes the logits of tokenised pairs.

    Attributes:
        backend: what runs it, "onnx" or "torch".
        one_pair_per_call: whether each call gets a single pair.
        workers: number of calls that run concurrently.
    """

    backend: str
    one_pair_per_call: bool
    workers: int

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Pad the rows and compute logits, [n] or [n, labels]; inputs that the model lacks are ignored."""
        ...


class LocalReranker(PartsReranker):
    """A re-ranker that tokenises pairs, batches them by length and runs a model.

    Its model has one logit, or two logits whose difference is the log-odds of relevance.

    Args:
        name: the name of the model, for messages.
        fingerprint: identifies the model and everything else a score depends on.
        tokens: its tokenizer of pairs.
        runner: the loaded model.
        options: the size of batches.

    Attributes:
        engine: what runs the model, "onnx" or "torch".
    """

    def __init__(self, name: str, fingerprint: str, tokens: Tokens, runner: Runner, options: Options) -> None:
        self.name, self.fingerprint, self.engine = name, fingerprint, runner.backend
        self._tokens, self._runner = tokens, runner
        self._budget = options.token_budget
        self._largest = 1 if runner.one_pair_per_call else options.batch_size

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute raw logits batch by batch; each batch is yielded as soon as it is there."""
        pool = ThreadPoolExecutor(self._runner.workers)
        run_all: Callable[..., Iterable[np.ndarray]] = pool.map if self._runner.workers > 1 else map
        reads = getattr(self, "reads", str)
        try:
            for start in range(0, len(pairs), CHUNK):
                chunk = [(encodable(query), encodable(reads(text))) for query, text in pairs[start : start + CHUNK]]
                rows = self._tokens.rows(chunk)
                lengths = [len(row["input_ids"]) for row in rows]
                batches = list(length_sorted_batches(lengths, budget=self._budget, largest=self._largest))
                outputs = run_all(self._runner, [[rows[index] for index in batch] for batch in batches])
                for batch, logits in zip(batches, outputs, strict=True):
                    yield start + batch, relevance_logits(logits, self.name)
        finally:
            pool.shutdown(cancel_futures=True)  # after an interruption, the rest of the chunk is not scored


class Checkpoint:
    """A folder with a checkpoint of transformers, and how it is to be run.

    Args:
        folder: the folder.
        options: how the model is run.
        longest: most tokens of a pair, whatever the options say.
    """

    def __init__(self, folder: Path, options: Options, *, longest: int = 10**9) -> None:
        self.folder, self.options, self.longest = folder, options, longest
        self.config = read_config(folder, trust_remote_code=options.trust_remote_code)
        self.dtype = chosen_dtype(folder, options.wanted_dtype, options.device)
        self.files = checkpoint_files(folder, code=options.trust_remote_code)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""
        return read_tokenizer(self.folder, trust_remote_code=self.options.trust_remote_code)

    @cached_property
    def length(self) -> int:
        """Tokens of the longest pair."""
        return self.usable_length(min(self.options.max_length, self.longest))

    def usable_length(self, wanted: int, *, warn: bool = True) -> int:
        """The maximum length `wanted`, or less if the model has fewer positions."""
        return usable_length(self.folder, self.config, self.tokenizer, wanted, warn=warn)

    def read(self, auto_class: str, *, device: str | None = None, dtype: str | None = None) -> Any:
        """The model, by a class of transformers; its device and its dtype can be others than those of the options.

        Raises:
            TourError: if it cannot be read, or if weights are missing (transformers would set them to random values).
        """
        dtype = dtype or self.dtype
        with quiet_reading(self.folder, "the model"):
            model, report = getattr(import_optional("transformers"), auto_class).from_pretrained(
                str(self.folder),
                config=self.config,
                dtype=getattr(import_optional("torch"), dtype),
                output_loading_info=True,
                weights_only=True,
                trust_remote_code=self.options.trust_remote_code,
            )
        if missing := sorted(report["missing_keys"]):
            raise TourError(
                f"{self.folder} is not a re-ranker: its checkpoint lacks {len(missing)} of the weights needed to score "
                f"a pair, such as {missing[0]}; choose a cross-encoder (this may be a bi-encoder)."
            )
        # In half precision, transformers keeps the weights in float32 that a model's authors say need it.
        model = (model.float() if dtype == "float32" else model).eval()
        return on_device(model, device or self.options.device, name=self.folder)

    def identify(self, kind: str, files: Iterable[Path] | None = None, /, **settings: object) -> str:
        """The fingerprint: of the files, the maximum length, a dtype other than float32, and settings."""
        half = {} if self.dtype == "float32" else {"dtype": self.dtype}
        return fingerprint(kind, self.files if files is None else files, max_length=self.length, **settings, **half)


def relevance_logits(logits: np.ndarray, name: str) -> np.ndarray:
    """Convert the output of a model to one raw logit per pair.

    Args:
        logits: [n] or [n, 1], used as they are; or [n, 2] (not relevant, relevant), whose difference is the
            log-odds of relevance.
        name: the name of the model, for the message.

    Returns:
        float64 [n].
    """
    logits = np.asarray(logits, dtype=np.float64)
    columns = logits.reshape(len(logits), -1)
    if logits.ndim > 2 or columns.shape[1] not in (1, 2):
        raise output_count_error(name, columns.shape[1] if logits.ndim == 2 else "no row of")
    return columns[:, 0] if columns.shape[1] == 1 else columns[:, 1] - columns[:, 0]


def output_count_error(name: str, count: object) -> TourError:
    """Make the error for a model with a wrong number of outputs."""
    return TourError(f"{name} gives {count} outputs per pair, but a re-ranker has one or two; choose another model.")


def pair_tokens(tokenizer: Any, *, max_length: int, prefix: str = "") -> "FastPairTokens | SlowPairTokens":
    """Make the tokenizer of pairs from a tokenizer of transformers, with a text before each query.

    The fast way is used if it gives the same tokens as the tokenizer itself for a few pairs.
    """
    slow = SlowPairTokens(tokenizer, max_length=max_length, prefix=prefix)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return slow
    expected = slow.rows(PROBES)  # it switches the truncation on; the fast way then switches it off for good
    backend.encode_special_tokens = tokenizer.split_special_tokens
    names, side = tokenizer.model_input_names, tokenizer.truncation_side
    fast = FastPairTokens(backend, max_length=max_length, names=names, direction=side, prefix=prefix)
    rows = zip(fast.rows(PROBES), expected, strict=True)
    same = all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in rows)
    return fast if same else slow


class FastPairTokens:
    """Tokenises pairs with a `tokenizers.Tokenizer`, each distinct text once.

    Query and passage are tokenised separately. The tokenizer itself then makes a pair of them (truncation, special
    tokens, token types), so that the result is the same as for the two texts together. Several threads may use it.

    Args:
        tokenizer: its truncation and padding are switched off, and must stay off.
        max_length: tokens per pair, including special tokens.
        names: the arrays of a row, some of `INPUTS`.
        direction: the side on which texts are cut, "right" or "left".
        prefix: a text before each query, such as the prompt of a sentence-transformers model.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_length: int,
        names: Collection[str] = INPUTS,
        direction: str = "right",
        prefix: str = "",
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._cutters = {
            strategy: token_cutter(tokenizer, max_length=max_length, direction=direction, strategy=strategy)
            for strategy in (PASSAGE_FIRST, LONGEST_FIRST)
        }
        self._room = max_length - tokenizer.num_special_tokens_to_add(is_pair=True)
        self._names = [name for name in INPUTS if name in names]
        self._prefix = prefix
        # A tokenizer without a post-processor does not set token types; the number of the text replaces them.
        self._types = "type_ids" if tokenizer.post_processor else "sequence_ids"

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        queries = self._encode(self._prefix + query for query, _ in pairs)
        passages = self._encode(passage for _, passage in pairs)
        return [self._row(queries[self._prefix + query], passages[passage]) for query, passage in pairs]

    def _encode(self, texts: Iterable[str]) -> dict[str, Any]:
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self._tokenizer.encode_batch(distinct, add_special_tokens=False), strict=True))

    def _row(self, query: Any, passage: Any) -> Row:
        pair = self._cutters[truncation_strategy(len(query), self._room)].post_process(query, passage)
        ids = np.array(pair.ids)
        row = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if "token_type_ids" in self._names:
            row["token_type_ids"] = np.array(getattr(pair, self._types))
        return {name: row[name] for name in self._names}


class SlowPairTokens:
    """Tokenises pairs with a tokenizer of transformers, the two texts of a pair together; one thread at a time.

    Such a tokenizer switches its truncation during a call, if it is not written in Python.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, prefix: str = "") -> None:
        self._tokenizer, self._prefix = tokenizer, prefix
        self._max_length = max_length
        self._room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
        self._lock = CallLock()

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        with self._lock:
            return [self._row(self._prefix + query, passage) for query, passage in pairs]

    def _row(self, query: str, passage: str) -> Row:
        (ids,) = self._tokenizer([query], add_special_tokens=False, verbose=False)["input_ids"]
        strategy = truncation_strategy(len(ids), self._room)
        # As lists: a passage without characters would count as none.
        encoded = self._tokenizer([query], [passage], truncation=strategy, max_length=self._max_length)
        return {name: encoded[name][0] for name in INPUTS if name in encoded}


def truncation_strategy(query_length: int, room: int) -> str:
    """The name of the truncation strategy for a pair, as tokenizers call it.

    The passage is cut and the query kept (`only_second`), unless the query leaves no room for a passage: then the
    longer of the two is cut, token by token (`longest_first`).

    Args:
        query_length: tokens of the query, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    return PASSAGE_FIRST if query_length < room else LONGEST_FIRST
