"""A re-ranker whose model runs in this process: its options, its checkpoint, its tokens of pairs, and its batches."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker, Reranker
from tour_pyserini.support.devices import DTYPES, RunOptions, on_device
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
    usable_length,
)
from tour_pyserini.support.packages import import_optional

SHORTEST_INPUT = 8
_CHUNK = 512
"""Pairs that are tokenised at a time: enough for batches of similar lengths, few enough to limit memory."""
POLICY = "pair, passage cut first"
"""How a pair is cut. Part of the fingerprint, because another truncation gives other scores."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Names of the arrays of a tokenised pair."""
PROBES = (
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("far?", "No."),
    ("of the", "sea " * 4096),
)
"""Pairs on which a faster way is compared with the plain way; the last one is cut to the maximum length."""


@dataclass(frozen=True, kw_only=True)
class Options(RunOptions):
    """How a re-ranker is run; `load_reranker` describes the fields."""

    max_length: int = 512
    prompt: str | None = None
    instruction: str | None = None

    least: ClassVar[Mapping[str, int]] = {**RunOptions.least, "max_length": SHORTEST_INPUT}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision == "int8" and self.backend == "torch":
            raise TourError("the precision int8 needs the back end onnx; leave one of them out.")
        if self.dtype in ("bfloat16", "float16") and self.wanted_dtype != self.dtype:
            raise TourError(f"the dtype {self.dtype} needs the back end torch and no precision; leave one of them out.")

    def check_backend(self, backends: Collection[str], name: str) -> None:
        """Refuse a back end that is none of those which can run the model of that name."""
        wanted = "onnx" if self.precision == "int8" else self.backend
        if wanted not in ("auto", *backends):
            raise TourError(f"{name} cannot be run by {wanted}, but by {' or '.join(backends)} only.")

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
    """A built-in kind of model folder; `register_reranker_kind` describes what stands here."""

    accepts: Callable[[Path], object]
    load: Callable[..., Reranker]
    BACKENDS: tuple[str, ...] = ("torch",)
    DTYPES: tuple[str, ...] = DTYPES
    TAKES_PROMPT: bool = False


class LocalReranker(PartsReranker):
    """A re-ranker that tokenises pairs, batches them by length and runs a model.

    Its model has one logit, or two logits whose difference is the log-odds of relevance.

    Args:
        name: the name of the model, for messages.
        fingerprint: identifies the model and everything else a score depends on.
        tokens: its tokenizer of pairs: `rows(pairs)` cuts each to the maximum length.
        runner: the loaded model, a function of rows to logits [n] or [n, labels]. Its `backend` is what runs it, "onnx"
            or "torch"; `one_pair_per_call` says whether each call gets a single pair; `workers` is the number of calls
            that run concurrently.
        options: the size of batches.

    Attributes:
        engine: what runs the model, "onnx" or "torch".
    """

    def __init__(self, name: str, fingerprint: str, tokens: Any, runner: Any, options: Options) -> None:
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
            for start in range(0, len(pairs), _CHUNK):
                chunk = [(encodable(query), encodable(reads(text))) for query, text in pairs[start : start + _CHUNK]]
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
        return usable_length(self.folder, self.config, self.tokenizer, min(self.options.max_length, self.longest))

    def read(self, auto_class: str, *, device: str | None = None) -> Any:
        """The model, by a class of transformers, on the device of the options or another one.

        Raises:
            TourError: if it cannot be read, or if weights are missing (transformers would set them to random values).
        """
        with quiet_reading(self.folder, "the model"):
            model, report = getattr(import_optional("transformers"), auto_class).from_pretrained(
                str(self.folder),
                config=self.config,
                dtype=getattr(import_optional("torch"), self.dtype),
                output_loading_info=True,
                weights_only=True,
                trust_remote_code=self.options.trust_remote_code,
            )
        if missing := sorted(report["missing_keys"]):
            lacks = f"its checkpoint lacks {len(missing)} of the weights that score a pair, such as {missing[0]}"
            raise TourError(
                f"{self.folder} is not a re-ranker: {lacks}; choose a cross-encoder (a bi-encoder is none)."
            )
        # In half precision, transformers keeps the weights in float32 that a model's authors say need it.
        model = (model.float() if self.dtype == "float32" else model).eval()
        return on_device(model, device or self.options.device, name=self.folder)

    def identify(self, kind: str, files: Iterable[Path], /, **settings: object) -> str:
        """The fingerprint: of the files, the maximum length, a dtype other than float32, and settings."""
        half = {} if self.dtype == "float32" else {"dtype": self.dtype}
        return fingerprint(kind, files, max_length=self.length, **settings, **half)


def relevance_logits(logits: np.ndarray, name: str) -> np.ndarray:
    """Convert the output of a model to one raw logit per pair.

    Args:
        logits: [n] or [n, 1], used as they are; or [n, 2] (not relevant, relevant), whose difference is the
            log-odds of relevance.
        name: the name of the model, for the message.

    Returns:
        float64 [n].
    """
    columns = np.asarray(logits, dtype=np.float64).reshape(len(logits), -1)
    if columns.shape[1] not in (1, 2):
        count = columns.shape[1]
        raise TourError(f"{name} gives {count} outputs per pair, but a re-ranker has one or two; choose another model.")
    return columns[:, 0] if columns.shape[1] == 1 else columns[:, 1] - columns[:, 0]


class PairTokens:
    """Tokenises pairs with a tokenizer of transformers, the two texts of a pair together; one thread at a time.

    The passage is cut and the query kept (`only_second`), unless the query leaves no room for a passage: then the
    longer of the two is cut, token by token (`longest_first`).

    Args:
        tokenizer: its truncation changes with every call.
        max_length: tokens per pair, including special tokens.
        prefix: a text before each query, such as the prompt of a sentence-transformers model.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, prefix: str = "") -> None:
        self._tokenizer, self._length, self._prefix = tokenizer, max_length, prefix
        self._lock = CallLock()

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        if not pairs:
            return []
        rows: dict[int, Row] = {}
        queries, passages = [self._prefix + query for query, _ in pairs], [passage for _, passage in pairs]
        with self._lock:
            room = self._length - self._special_tokens()
            fits = [length < room for length in self._lengths(queries)]
            for strategy, wanted in (("only_second", True), ("longest_first", False)):
                if chosen := [number for number, fit in enumerate(fits) if fit is wanted]:
                    texts = [queries[number] for number in chosen], [passages[number] for number in chosen]
                    rows |= zip(chosen, self._encode(*texts, strategy), strict=True)
        return [rows[number] for number in range(len(pairs))]

    def _special_tokens(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add(pair=True))

    def _lengths(self, texts: list[str]) -> list[int]:
        return list(map(len, self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]))

    def _encode(self, queries: list[str], passages: list[str], strategy: str) -> Iterable[Row]:
        encoded = self._tokenizer(queries, passages, truncation=strategy, max_length=self._length)
        names = [name for name in INPUTS if name in encoded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(encoded[name] for name in names), strict=True)]


class FilePairTokens(PairTokens):
    """The same with a `tokenizers.Tokenizer`: transformers takes seconds to import."""

    def _special_tokens(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add(is_pair=True))

    def _lengths(self, texts: list[str]) -> list[int]:
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        return list(map(len, self._tokenizer.encode_batch(texts, add_special_tokens=False)))

    def _encode(self, queries: list[str], passages: list[str], strategy: str) -> Iterable[Row]:
        self._tokenizer.enable_truncation(self._length, strategy=strategy)
        for coded in self._tokenizer.encode_batch(list(zip(queries, passages, strict=True))):
            yield dict(zip(INPUTS, (coded.ids, coded.attention_mask, coded.type_ids), strict=True))


def cut_pair(query: list[int], passage: list[int], room: int) -> list[list[int]]:
    """Token ids of both texts in `room`: the passage is cut; a query that leaves no room, to half of it if need be."""
    if len(query) >= room:
        query = query[: max(room - len(passage), room // 2)]
    return [query, passage[: room - len(query)]]
