"""Pyserini's AutoQueryEncoder with faster batches: queries with the same number of tokens are encoded together."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.encode import AutoQueryEncoder  # noqa: E402

_LARGEST_GROUP = 16  # queries
_TRIAL_GROUPS = ((6, 3), (9, _LARGEST_GROUP))  # (tokens per query, queries) of the groups that `groups_are_exact` tries


class GroupedQueryEncoder(AutoQueryEncoder):
    """Encodes a batch several times as fast as one query at a time, with exactly the same vectors.

    Padding would change the result of Pyserini's mean pooling, so only queries with the same number of tokens share a
    group. One thread is used, because several threads split a matrix product in ways that depend on its size, which
    changes the rounding. If vectors still depend on the group on this machine, each query is encoded separately.
    """

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
        from sklearn.preprocessing import normalize

        tokens = torch.tensor(ids, device=self.device)
        with torch.inference_mode():
            outputs: Any = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens))[0].cpu().numpy()
        pooled = np.average(outputs, axis=-2) if self.pooling == "mean" else outputs[:, 0, :]
        return normalize(pooled, norm="l2") if self.l2_norm else pooled
