"""A re-ranker whose model runs in this process: its options, its tokens of pairs, and its batches."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Description, Pair, Part, PartsReranker
from tour_pyserini.support.devices import DTYPES, cores
from tour_pyserini.support.tokens import CallLock, Row, encodable, length_sorted_batches, token_cutter

SHORTEST_INPUT = 8
BACKENDS = ("auto", "onnx", "torch")
PRECISIONS = ("fp32", "int8")
ENGINES = {"onnx": "ONNX Runtime", "torch": "torch"}
"""Names of the back ends for people."""

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
        if self.max_length < SHORTEST_INPUT:
            raise TourError(f"the maximum length is {self.max_length} tokens; give at least {SHORTEST_INPUT}.")
        for what, value in (("batch size", self.batch_size), ("number of threads", self.threads)):
            if value is not None and value < 1:
                raise TourError(f"the {what} is {value}; give 1 or more.")
        chosen = (("back end", self.backend, BACKENDS), ("dtype", self.dtype, DTYPES))
        for what, word, words in (*chosen, ("precision", self.precision or PRECISIONS[0], PRECISIONS)):
            if word not in words:
                raise TourError(f"unknown {what} {word!r}; give one of {', '.join(words)}.")
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
    def cores(self) -> int:
        """Number of threads to use: `threads`, or the number of cores that this process may use."""
        return self.threads or cores()

    @property
    def token_budget(self) -> int:
        """Padded tokens per batch. A CPU is fastest with small batches of similar lengths, a GPU with large ones.

        Measured with torch on one AVX-512 core, MiniLM-L-12, 64 pairs of 40-250 tokens: 256, 1,024 and 4,096 tokens
        take 5.05, 4.97 and 5.36 s.
        """
        if self.batch_size is not None:
            return self.batch_size * self.max_length
        return 1024 if self.device == "cpu" else 65536


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
        description: how the model is run.
        tokens: its tokenizer of pairs.
        runner: the loaded model.
        options: the size of batches.
    """

    def __init__(
        self, name: str, fingerprint: str, description: Description, tokens: Tokens, runner: Runner, options: Options
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.description = description
        self._tokens = tokens
        self._runner = runner
        self._budget = options.token_budget
        self._largest = 1 if runner.one_pair_per_call else options.batch_size

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute raw logits batch by batch; each batch is yielded as soon as it is there."""
        pool = ThreadPoolExecutor(self._runner.workers)
        run_all: Callable[..., Iterable[np.ndarray]] = pool.map if self._runner.workers > 1 else map
        try:
            for start in range(0, len(pairs), CHUNK):
                chunk = [self._texts(pair) for pair in pairs[start : start + CHUNK]]
                rows = self._tokens.rows(chunk)
                lengths = [len(row["input_ids"]) for row in rows]
                batches = list(length_sorted_batches(lengths, budget=self._budget, largest=self._largest))
                outputs = run_all(self._runner, [[rows[index] for index in batch] for batch in batches])
                for batch, logits in zip(batches, outputs, strict=True):
                    yield start + batch, relevance_logits(logits, self.name)
        finally:
            pool.shutdown(cancel_futures=True)  # after an interruption, the rest of the chunk is not scored

    def _texts(self, pair: Pair) -> Pair:
        """What the tokenizer gets of a pair."""
        return encodable(pair[0]), encodable(pair[1])


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
    if logits.ndim == 1:
        return logits
    if logits.ndim == 2 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    raise output_count_error(name, logits.shape[1] if logits.ndim == 2 else "no row of")


def output_count_error(name: str, count: object) -> TourError:
    """Make the error for a model with a wrong number of outputs."""
    return TourError(f"{name} gives {count} outputs per pair, but a re-ranker has one or two; choose another model.")


def describe_score(outputs: int) -> str:
    """Say what the score of a classifier with one or two outputs is."""
    return "one logit" if outputs == 1 else "second logit minus first logit"


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
    fast = FastPairTokens(
        backend,
        max_length=max_length,
        names=tokenizer.model_input_names,
        direction=tokenizer.truncation_side,
        prefix=prefix,
    )
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
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._prefix = prefix
        self._room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
        self._lock = CallLock()

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        prefixed = [(self._prefix + query, passage) for query, passage in pairs]
        queries = list(dict.fromkeys(query for query, _ in prefixed))
        rows: dict[int, Row] = {}
        with self._lock:
            ids = self._tokenizer(queries, add_special_tokens=False, verbose=False)["input_ids"]
            strategies = {
                query: truncation_strategy(len(one), self._room) for query, one in zip(queries, ids, strict=True)
            }
            for strategy in sorted(set(strategies.values())):
                indexes = [index for index, (query, _) in enumerate(prefixed) if strategies[query] == strategy]
                rows.update(zip(indexes, self._encode([prefixed[i] for i in indexes], strategy), strict=True))
        return [rows[index] for index in range(len(pairs))]

    def _encode(self, pairs: list[Pair], strategy: str) -> Sequence[Row]:
        queries, passages = (list(texts) for texts in zip(*pairs, strict=True))
        encoded = self._tokenizer(queries, passages, truncation=strategy, max_length=self._max_length)
        names = [name for name in INPUTS if name in encoded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(encoded[name] for name in names), strict=True)]


def truncation_strategy(query_length: int, room: int) -> str:
    """The name of the truncation strategy for a pair, as tokenizers call it.

    The passage is cut and the query kept (`only_second`), unless the query leaves no room for a passage: then the
    longer of the two is cut, token by token (`longest_first`).

    Args:
        query_length: tokens of the query, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    return PASSAGE_FIRST if query_length < room else LONGEST_FIRST
