"""What runs an encoder's model: texts to vectors. The other modules of this kind are graphs and functions."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.encoders.sentence_model import BARE_LENGTH, declared, position_limit, prompt_of
from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.tokens import CallLock, encodable, length_sorted_batches

_LARGEST_GROUP = 16  # queries
_TRIAL_GROUPS = ((6, 3), (9, _LARGEST_GROUP))  # (tokens per query, queries) of the groups that are tried
_PADDED = ("far?", "who wrote hamlet", "the sea " * 8)  # texts of different lengths
_TOLERANCE, _HALF_TOLERANCE = 1e-3, 0.1  # rounding errors, relative to the largest number
_NO_LIMIT = 1_000_000  # tokens; tokenizers mean "no limit" with numbers above


class TextRunner(Protocol):
    """Computes vectors of texts.

    Attributes:
        backend: what runs the model: `torch`, `onnx` or `function`.
        prompt: what the model itself puts before each text of its role; "" for nothing.
        length: tokens of a text that are read, unless another number is given; None: all.
        limit: most tokens that can be read; None: any number.
        special_tokens: tokens that every text gets besides its own.
        settings: what vectors depend on besides the model's files, for records.
    """

    backend: str
    prompt: str
    length: int | None
    limit: int | None
    special_tokens: int
    settings: dict[str, Any]

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        ...


class TorchRunner:
    """A `SentenceTransformer` with a role: it encodes queries, or documents.

    A query is encoded as if it were alone: only queries with the same number of tokens share a batch, on one thread,
    because several threads split a matrix product in ways that depend on its size. If vectors still depend on the batch
    on this machine, each query is encoded separately. Documents share batches by their number of tokens, padding
    included, unless padding changes the model's vectors; then only documents with the same number of tokens share one.
    If a GPU has too little memory for a batch, its halves are tried. One thread encodes at a time, because the length
    that the model reads is switched during a call.

    Args:
        model: the `SentenceTransformer`.
        role: `query` or `document`.
        bare: whether the model's files do not say how long a text may be.
        batch_size: most documents in a batch.
        threads: CPU threads for documents; None: torch's own number.
    """

    backend = "torch"

    def __init__(
        self, model: Any, role: str, *, bare: bool = False, batch_size: int | None = None, threads: int | None = None
    ) -> None:
        self.model, self.role = model, role
        self.prompt = prompt_of(model, role)
        self.limit = position_limit(model)
        length = getattr(model[0], f"{role}_length", None) or model.max_seq_length
        self.length = int(length) if length is not None and length < _NO_LIMIT else None
        if bare and role == "document":
            self.length = min(BARE_LENGTH, self.length or BARE_LENGTH)
        counts = getattr(getattr(model, "tokenizer", None), "num_special_tokens_to_add", None)
        self.special_tokens = counts(False) if counts else 0
        self.settings = {**declared(model), "dtype": str(model.dtype).removeprefix("torch.")}
        self._batch_size, self._threads = batch_size, threads
        self._budget = 1024 if model.device.type == "cpu" else 65536  # tokens of a batch
        self._lock = CallLock()

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        with self._lock:
            return self._vectors([encodable(text) for text in texts], prompt, max_length)

    def _vectors(self, texts: list[str], prompt: str, max_length: int | None) -> Floats:
        before = self.model.max_seq_length
        if max_length is not None and self._tokenizer is not None:
            self.model.max_seq_length = max_length
        try:
            groups = self._query_groups(texts, prompt) if self.role == "query" else self._batches(texts, prompt)
            rows: list[Any] = [None] * len(texts)
            with torch_threads(1 if self.role == "query" else self._threads):
                for group in groups:
                    for position, row in zip(group, self._encode([texts[i] for i in group], prompt), strict=True):
                        rows[position] = row
        finally:
            if self._tokenizer is not None:
                self.model.max_seq_length = before
        return np.stack(rows).astype(np.float32, copy=False)

    def _encode(self, texts: list[str], prompt: str) -> Any:
        import torch

        try:
            return self.model.encode(
                texts, prompt=prompt, batch_size=len(texts), task=self.role, show_progress_bar=False
            )
        except torch.OutOfMemoryError:
            if len(texts) == 1:
                raise TourError("the device has too little memory for one document; lower --max-length.") from None
            half = len(texts) // 2
            return np.concatenate([self._encode(texts[:half], prompt), self._encode(texts[half:], prompt)])

    def _batches(self, texts: list[str], prompt: str) -> list[list[int]]:
        lengths = self._lengths(texts, prompt)
        if len(texts) > 1 and self._tokenizer is not None and not self.padding_is_harmless:
            return _equal_groups(lengths, min(self._batch_size or _LARGEST_GROUP, _LARGEST_GROUP))
        batches = length_sorted_batches(lengths, budget=self._budget, largest=self._batch_size)
        return [batch.tolist() for batch in batches]

    def _query_groups(self, texts: list[str], prompt: str) -> list[list[int]]:
        size = _LARGEST_GROUP if len(texts) > 1 and self._tokenizer is not None and self.groups_are_exact else 1
        if size == 1:
            return [[position] for position in range(len(texts))]
        return _equal_groups(self._lengths(texts, prompt), size)

    def _lengths(self, texts: list[str], prompt: str) -> list[int]:
        """Tokens of each text; of a model without a tokenizer of transformers, its characters."""
        if self._tokenizer is None:
            return [len(text) for text in texts]
        coded = self._tokenizer([prompt + text for text in texts], truncation=True, max_length=_cap(self.model))
        return [len(ids) for ids in coded["input_ids"]]

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer of transformers, if the model begins with a transformer."""
        return getattr(self.model, "tokenizer", None) if hasattr(self.model[0], "auto_model") else None

    @cached_property
    def padding_is_harmless(self) -> bool:
        """Whether a text has the same vector, but for rounding, in a padded batch as on its own.

        It does not in models that count positions from the left and are padded there, such as GPT-2.
        """
        together = self._encode(list(_PADDED), "")
        alone = np.concatenate([self._encode([text], "") for text in _PADDED])
        tolerance = _TOLERANCE if self.settings["dtype"] == "float32" else _HALF_TOLERANCE
        return bool(np.abs(together - alone).max() <= tolerance * np.abs(alone).max())

    @cached_property
    def groups_are_exact(self) -> bool:
        """Whether a query has exactly the same vector in a group as on its own, on this machine."""
        import torch

        random = np.random.default_rng(0)
        # A tokenizer may know more tokens than the model, for other uses of it.
        known = len(self._tokenizer)
        known = min(known, getattr(self.model[0].auto_model.config, "vocab_size", None) or known)
        with torch_threads(1), torch.inference_mode():
            for length, count in _TRIAL_GROUPS:
                ids = torch.tensor(random.integers(known, size=(count, length)))
                together = self._forward(ids)
                if not all(torch.equal(together[i], self._forward(ids[[i]])[0]) for i in (0, -1)):
                    return False
        return True

    def _forward(self, ids: Any) -> Any:
        import torch

        ids = ids.to(self.model.device)
        return self.model.forward({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["sentence_embedding"]


class FunctionRunner:
    """A function from a list of texts to vectors [n, d]."""

    backend = "function"
    prompt = ""
    length: int | None = None
    limit: int | None = None
    special_tokens = 0

    def __init__(self, function: Callable[[list[str]], Any], **settings: Any) -> None:
        self._function, self.settings = function, settings

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        if max_length is not None:
            raise TourError("a function reads texts as they are; leave the maximum length out.")
        vectors = np.asarray(self._function([prompt + text for text in texts]), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise TourError(f"the encoder function gives {list(vectors.shape)} for {len(texts)} texts, not [n, d].")
        return vectors


def _equal_groups(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Positions in groups of equal lengths, with at most `size` positions."""
    by_length: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        by_length.setdefault(length, []).append(position)
    return [group[start : start + size] for group in by_length.values() for start in range(0, len(group), size)]


def _cap(model: Any) -> int | None:
    length = model.max_seq_length
    return int(length) if length is not None and length < _NO_LIMIT else None
