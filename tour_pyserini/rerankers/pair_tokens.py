"""Tokenise (query, passage) pairs: each text once, each pair cut to the maximum length."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row
from tour_pyserini.support.call_lock import CallLock
from tour_pyserini.support.token_cutting import token_cutter

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


class PairTokens(Protocol):
    """A tokenizer of pairs."""

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise each chunk of pairs, cut to the maximum length."""
        ...


def pair_tokens(tokenizer: Any, *, max_length: int, prefix: str = "") -> PairTokens:
    """Make the tokenizer of pairs from a tokenizer of transformers, with a text before each query.

    The fast way is used if it gives the same tokens as the tokenizer itself for a few pairs.
    """
    tokens: PairTokens = SlowPairTokens(tokenizer, max_length=max_length)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        (expected,) = tokens.rows([PROBES])  # it switches the truncation on; the fast way then switches it off for good
        backend.encode_special_tokens = tokenizer.split_special_tokens
        fast = FastPairTokens(
            backend, max_length=max_length, names=tokenizer.model_input_names, direction=tokenizer.truncation_side
        )
        (rows,) = fast.rows([PROBES])
        tokens = fast if _same_rows(rows, expected) else tokens
    return PrefixedTokens(tokens, prefix) if prefix else tokens


def _same_rows(first: Sequence[Row], second: Sequence[Row]) -> bool:
    rows = zip(first, second, strict=True)
    return all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in rows)


class PrefixedTokens:
    """Puts a text before each query, such as the prompt of a sentence-transformers model."""

    def __init__(self, tokens: PairTokens, prefix: str) -> None:
        self._tokens = tokens
        self._prefix = prefix

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise each chunk of pairs, cut to the maximum length."""
        return self._tokens.rows([(self._prefix + query, passage) for query, passage in pairs] for pairs in chunks)


class FastPairTokens:
    """Tokenises pairs with a `tokenizers.Tokenizer`, each distinct text once.

    Query and passage are tokenised separately. The tokenizer itself then makes a pair of them (truncation, special
    tokens, token types), so that the result is the same as for the two texts together. The tokens of queries are kept
    for all chunks of a call, the tokens of passages from one chunk to the next. Several threads may use it.

    Args:
        tokenizer: its truncation and padding are switched off, and must stay off.
        max_length: tokens per pair, including special tokens.
        names: the arrays of a row, some of `INPUTS`.
        direction: the side on which texts are cut, "right" or "left".
    """

    def __init__(
        self, tokenizer: Any, *, max_length: int, names: Collection[str] = INPUTS, direction: str = "right"
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
        # A tokenizer without a post-processor does not set token types; the number of the text replaces them.
        self._types = "type_ids" if tokenizer.post_processor else "sequence_ids"

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise each chunk of pairs, cut to the maximum length."""
        queries: dict[str, Any] = {}
        passages: dict[str, Any] = {}
        for pairs in chunks:
            self._tokenise(dict.fromkeys(query for query, _ in pairs), queries)
            texts = dict.fromkeys(passage for _, passage in pairs)
            passages = {text: encoding for text, encoding in passages.items() if text in texts}
            self._tokenise(texts, passages)
            yield [self._pair_row(queries[query], passages[passage]) for query, passage in pairs]

    def _tokenise(self, texts: Iterable[str], encodings: dict[str, Any]) -> None:
        """Add the texts that `encodings` does not have yet."""
        new = [text for text in texts if text not in encodings]
        encodings.update(zip(new, self._tokenizer.encode_batch(new, add_special_tokens=False), strict=True))

    def _pair_row(self, query: Any, passage: Any) -> Row:
        pair = self._cutters[truncation_strategy(len(query), self._room)].post_process(query, passage)
        ids = np.array(pair.ids)
        row = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if "token_type_ids" in self._names:
            row["token_type_ids"] = np.array(getattr(pair, self._types))
        return {name: row[name] for name in self._names}


class SlowPairTokens:
    """Tokenises pairs with a tokenizer of transformers, the two texts of a pair together; one chunk at a time.

    Such a tokenizer switches its truncation during a call, if it is not written in Python.
    """

    def __init__(self, tokenizer: Any, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
        self._lock = CallLock()

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise each chunk of pairs, cut to the maximum length."""
        for pairs in chunks:
            with self._lock:
                rows = encode_pairs(pairs, encode=self._encode, query_lengths=self._lengths, room=self._room)
            yield rows

    def _encode(self, pairs: list[Pair], strategy: str) -> Sequence[Row]:
        queries, passages = (list(texts) for texts in zip(*pairs, strict=True))
        encoded = self._tokenizer(queries, passages, truncation=strategy, max_length=self._max_length)
        names = [name for name in INPUTS if name in encoded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(encoded[name] for name in names), strict=True)]

    def _lengths(self, queries: list[str]) -> list[int]:
        return [len(ids) for ids in self._tokenizer(queries, add_special_tokens=False, verbose=False)["input_ids"]]


def encode_pairs(
    pairs: Sequence[Pair],
    *,
    encode: Callable[[list[Pair], str], Sequence[Row]],
    query_lengths: Callable[[list[str]], list[int]],
    room: int,
) -> Sequence[Row]:
    """Tokenise pairs so that each one fits the model.

    Args:
        pairs: (query, passage) texts.
        encode: function that tokenises pairs with a truncation strategy, given by its name.
        query_lengths: function that counts the tokens of queries, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    queries = list(dict.fromkeys(query for query, _ in pairs))
    lengths = zip(queries, query_lengths(queries), strict=True)
    strategies = {query: truncation_strategy(length, room) for query, length in lengths}
    rows: dict[int, Row] = {}
    for strategy in sorted(set(strategies.values())):
        indexes = [index for index, (query, _) in enumerate(pairs) if strategies[query] == strategy]
        rows.update(zip(indexes, encode([pairs[index] for index in indexes], strategy), strict=True))
    return [rows[index] for index in range(len(pairs))]


def truncation_strategy(query_length: int, room: int) -> str:
    """The name of the truncation strategy for a pair, as tokenizers call it.

    The passage is cut and the query kept (`only_second`), unless the query leaves no room for a passage: then the
    longer of the two is cut, token by token (`longest_first`).

    Args:
        query_length: tokens of the query, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    return PASSAGE_FIRST if query_length < room else LONGEST_FIRST
