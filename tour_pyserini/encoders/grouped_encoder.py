"""Pyserini's AutoQueryEncoder, with queries of one length encoded together."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.encode import AutoQueryEncoder  # noqa: E402

_LARGEST = 16  # queries in a group
_TRIED = ((6, 3), (9, _LARGEST))  # tokens and queries of the groups that `steady` tries


class GroupedQueryEncoder(AutoQueryEncoder):
    """Encodes a batch several times as fast as one by one, with the same vectors to the last bit.

    Padding would change what Pyserini's mean pooling computes, so only queries of as many tokens share a group; and one
    thread, because several divide a product by its size. Where a vector nevertheless depends on its company, every
    query is encoded alone.
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
        for place, ids in enumerate(coded):
            by_length.setdefault(len(ids), []).append(place)
        vectors: dict[int, Floats] = {}
        largest = _LARGEST if len(texts) > 1 and self.steady else 1
        with torch_threads(1):
            for places in by_length.values():
                for start in range(0, len(places), largest):
                    group = places[start : start + largest]
                    vectors.update(zip(group, self._vectors([coded[place] for place in group]), strict=True))
        return np.stack([vectors[place] for place in range(len(texts))])

    @cached_property
    def steady(self) -> bool:
        """Whether a query's vector is the same alone and in company, to the last bit, on this machine."""
        random = np.random.default_rng(0)
        with torch_threads(1):
            for length, count in _TRIED:
                ids = random.integers(len(self.tokenizer), size=(count, length)).tolist()
                together = self._vectors(ids)
                if not all(np.array_equal(together[place], self._vectors([ids[place]])[0]) for place in (0, -1)):
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
