"""Tokenised pairs: each text tokenised once, each pair cut to the maximum length."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row

POLICY = "pair, passage cut first"
"""Part of a fingerprint: other ways to cut a pair give other scores."""


def strategy(query_length: int, room: int) -> str:
    """How a pair is cut, by the name that tokenizers give it.

    The passage is cut and the query kept (`only_second`), unless the query alone leaves no room for a passage: then
    the longer of the two is cut, token by token (`longest_first`).

    Args:
        query_length: tokens of the query, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    return "only_second" if query_length < room else "longest_first"


def encode_pairs(
    pairs: Sequence[Pair],
    *,
    encode: Callable[[list[Pair], str], Sequence[Row]],
    query_lengths: Callable[[list[str]], list[int]],
    room: int,
) -> Sequence[Row]:
    """Tokenise pairs so that each fits the model.

    Args:
        pairs: (query, passage) texts.
        encode: tokenises pairs with the truncation strategy of that name.
        query_lengths: counts the tokens of queries, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    queries = list(dict.fromkeys(query for query, _ in pairs))
    ways = {query: strategy(length, room) for query, length in zip(queries, query_lengths(queries), strict=True)}
    rows: dict[int, Row] = {}
    for way in sorted(set(ways.values())):
        indexes = [index for index, (query, _) in enumerate(pairs) if ways[query] == way]
        rows.update(zip(indexes, encode([pairs[index] for index in indexes], way), strict=True))
    return [rows[index] for index in range(len(pairs))]


INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""What a tokenised pair consists of."""


class PairTokens(Protocol):
    """A tokenizer of pairs."""

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """The rows of each chunk of pairs, cut to the maximum length."""
        ...


class FastPairTokens:
    """Pairs from a `tokenizers.Tokenizer`.

    Query and passage are tokenised apart, each distinct text once; what makes a pair of them (cutting, special tokens,
    token types) is the tokenizer's own, and the result is what it gives for the two texts together. Queries are
    remembered from the first chunk to the last, passages from one chunk to the next.

    Args:
        tokenizer: it belongs to this object from now on, because its truncation is switched.
        max_length: tokens per pair, special ones included.
        names: which of `INPUTS` a row holds.
        direction: the side on which texts are cut, "right" or "left".
    """

    def __init__(
        self, tokenizer: Any, *, max_length: int, names: Collection[str] = INPUTS, direction: str = "right"
    ) -> None:
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._cut = {"max_length": max_length, "direction": direction}
        self._room = max_length - tokenizer.num_special_tokens_to_add(is_pair=True)
        self._names = [name for name in INPUTS if name in names]
        # Without a post-processor nothing sets the types, which then say which of the two texts a token is from.
        self._types = "type_ids" if tokenizer.post_processor else "sequence_ids"

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """The rows of each chunk of pairs, cut to the maximum length."""
        queries: dict[str, Any] = {}
        passages: dict[str, Any] = {}
        for pairs in chunks:
            self._tokenizer.no_truncation()
            self._learn(queries, dict.fromkeys(query for query, _ in pairs))
            wanted = dict.fromkeys(passage for _, passage in pairs)
            passages = {text: coded for text, coded in passages.items() if text in wanted}
            self._learn(passages, wanted)
            yield self._together([(queries[query], passages[passage]) for query, passage in pairs])

    def _learn(self, known: dict[str, Any], texts: Iterable[str]) -> None:
        new = [text for text in texts if text not in known]
        known.update(zip(new, self._tokenizer.encode_batch(new, add_special_tokens=False), strict=True))

    def _together(self, coded: Sequence[tuple[Any, Any]]) -> list[Row]:
        ways = [strategy(len(query), self._room) for query, _ in coded]
        rows: list[Row] = [{}] * len(coded)
        for way in set(ways):
            self._tokenizer.enable_truncation(strategy=way, **self._cut)
            for place, (query, passage) in enumerate(coded):
                if ways[place] == way:
                    rows[place] = self._row(self._tokenizer.post_process(query, passage))
        return rows

    def _row(self, pair: Any) -> Row:
        ids = np.array(pair.ids)
        row = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if "token_type_ids" in self._names:
            row["token_type_ids"] = np.array(getattr(pair, self._types))
        return {name: row[name] for name in self._names}


class SlowPairTokens:
    """Pairs from a tokenizer of transformers that is written in Python: it takes the two texts together."""

    def __init__(self, tokenizer: Any, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._room = max_length - tokenizer.num_special_tokens_to_add(pair=True)

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """The rows of each chunk of pairs, cut to the maximum length."""
        for pairs in chunks:
            yield encode_pairs(pairs, encode=self._encode, query_lengths=self._lengths, room=self._room)

    def _encode(self, pairs: list[Pair], way: str) -> Sequence[Row]:
        queries, passages = (list(texts) for texts in zip(*pairs, strict=True))
        coded = self._tokenizer(queries, passages, truncation=way, max_length=self._max_length)
        names = [name for name in INPUTS if name in coded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(coded[name] for name in names), strict=True)]

    def _lengths(self, queries: list[str]) -> list[int]:
        return [len(ids) for ids in self._tokenizer(queries, add_special_tokens=False, verbose=False)["input_ids"]]


def pair_tokens(tokenizer: Any, *, max_length: int) -> PairTokens:
    """The pairs of a tokenizer of transformers."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return SlowPairTokens(tokenizer, max_length=max_length)
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return FastPairTokens(
        backend, max_length=max_length, names=tokenizer.model_input_names, direction=tokenizer.truncation_side
    )
