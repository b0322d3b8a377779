"""Cutting a pair to the maximum length."""

from collections.abc import Callable, Sequence

from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batching import Row

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
