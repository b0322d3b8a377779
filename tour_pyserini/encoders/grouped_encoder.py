"""The query encoder of the class auto: Pyserini's AutoQueryEncoder without Pyserini, and with faster batches."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.support.devices import pyserini_device, torch_threads
from tour_pyserini.support.optional import import_optional

_LARGEST_GROUP = 16  # queries
_TRIAL_GROUPS = ((6, 3), (9, _LARGEST_GROUP))  # (tokens per query, queries) of the groups that `groups_are_exact` tries


class GroupedQueryEncoder:
    """Encodes a batch several times as fast as one query at a time, with exactly the same vectors.

    Padding would change the result of Pyserini's mean pooling, so only queries with the same number of tokens share a
    group. One thread is used, because several threads split a matrix product in ways that depend on its size, which
    changes the rounding. If vectors still depend on the group on this machine, each query is encoded separately.

    Attributes:
        model: the model, on its device, without gradients.
        tokenizer: its tokenizer.
        device: `cpu`, `cuda:0`, ...
        pooling: `mean`, or the vector of the first token for any other word.
        l2_norm: whether vectors get norm 1.
        prefix: text put before every query, followed by a space.
    """

    has_model = True  # Pyserini asks for this

    def __init__(
        self,
        encoder_dir: str,
        *,
        tokenizer_name: str | None = None,
        device: str = "cpu",
        pooling: str = "cls",
        l2_norm: bool = False,
        prefix: str | None = None,
    ) -> None:
        """Load the model; the arguments are those of Pyserini's AutoQueryEncoder."""
        transformers = import_optional("transformers")
        hide_progress_bar()
        self.device = pyserini_device(device)
        self.model = transformers.AutoModel.from_pretrained(encoder_dir).to(self.device).requires_grad_(False)
        self.tokenizer = _tokenizer(transformers.AutoTokenizer, tokenizer_name or encoder_dir)
        self.pooling, self.l2_norm, self.prefix = pooling, l2_norm, prefix

    def encode(self, query: str, max_length: int | None = None) -> Floats:
        """The vector [d] of a query."""
        return self.encode_batch([query], max_length)[0]

    def encode_batch(self, queries: Sequence[str], max_length: int | None = None) -> Floats:
        """The vectors [n, d] of the queries."""
        texts = [f"{self.prefix} {query}" if self.prefix else query for query in queries]
        limit = {} if max_length is None else {"max_length": max_length}
        coded = self.tokenizer(texts, truncation=True, **limit)["input_ids"]
        by_length: dict[int, list[int]] = {}
        for position, ids in enumerate(coded):
            by_length.setdefault(len(ids), []).append(position)
        vectors: dict[int, Floats] = {}
        group_size = _LARGEST_GROUP if len(texts) > 1 and self.groups_are_exact else 1
        with torch_threads(1):
            for positions in by_length.values():
                for start in range(0, len(positions), group_size):
                    group = positions[start : start + group_size]
                    vectors.update(zip(group, self._vectors([coded[i] for i in group]), strict=True))
        return np.stack([vectors[i] for i in range(len(texts))])

    @cached_property
    def groups_are_exact(self) -> bool:
        """Whether a query has exactly the same vector in a group as on its own, on this machine."""
        random = np.random.default_rng(0)
        with torch_threads(1):
            for length, count in _TRIAL_GROUPS:
                ids = random.integers(len(self.tokenizer), size=(count, length)).tolist()
                together = self._vectors(ids)
                if not all(np.array_equal(together[i], self._vectors([ids[i]])[0]) for i in (0, -1)):
                    return False
        return True

    def _vectors(self, ids: list[list[int]]) -> Floats:
        """Vectors [n, d] of token ids [n, length]."""
        import torch

        tokens = torch.tensor(ids, device=self.device)
        with torch.inference_mode():
            outputs: Any = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens))[0].cpu().numpy()
        return pooled(outputs, mean=self.pooling == "mean", l2_norm=self.l2_norm)


def hide_progress_bar() -> None:
    """Turn off the progress bar that transformers shows while it loads weights."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def pooled(outputs: Floats, *, mean: bool, l2_norm: bool) -> Floats:
    """Vectors [n, d] from the outputs of a model [n, length, d], to the last bit as Pyserini computes them.

    Args:
        outputs: vectors of tokens, without padding.
        mean: the mean of all tokens; otherwise the first token.
        l2_norm: whether vectors get norm 1.
    """
    vectors = np.average(outputs, axis=-2) if mean else outputs[:, 0, :]
    return _unit(vectors) if l2_norm else vectors


def _unit(vectors: Floats) -> Floats:
    """What sklearn's `normalize` gives, without the seconds that its import takes."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    norms[norms < 10 * np.finfo(norms.dtype).eps] = 1.0
    return vectors / norms[:, None]


def _tokenizer(auto_tokenizer: Any, name: str) -> Any:
    try:
        return auto_tokenizer.from_pretrained(name, clean_up_tokenization_spaces=True)
    except Exception:  # as in Pyserini: some models have only a tokenizer that is written in Python
        return auto_tokenizer.from_pretrained(name, use_fast=False, clean_up_tokenization_spaces=True)
