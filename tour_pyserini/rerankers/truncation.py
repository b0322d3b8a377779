"""Cutting a pair to the maximum length."""

from collections.abc import Callable, Sequence

from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batching import Row

POLICY = "pair, passage cut first"
"""Part of a fingerprint: other ways to cut a pair give other scores."""


def encode_pairs(
    pairs: Sequence[Pair],
    *,
    encode: Callable[[list[Pair], str], Sequence[Row]],
    query_lengths: Callable[[list[str]], list[int]],
    room: int,
) -> Sequence[Row]:
    """Tokenise pairs so that each fits the model.

    The passage is cut and the query kept (`only_second`), unless the query alone leaves no room for a passage: then
    the longer of the two is cut, token by token (`longest_first`).

    Args:
        pairs: (query, passage) texts.
        encode: tokenises pairs with the truncation strategy of that name.
        query_lengths: counts the tokens of queries, without special tokens.
        room: tokens for query and passage together, without special tokens.
    """
    queries = list(dict.fromkeys(query for query, _ in pairs))
    too_long = {query for query, length in zip(queries, query_lengths(queries), strict=True) if length >= room}
    rows: dict[int, Row] = {}
    for strategy, wanted in (("only_second", False), ("longest_first", True)):
        indexes = [index for index, (query, _) in enumerate(pairs) if (query in too_long) is wanted]
        if indexes:
            rows.update(zip(indexes, encode([pairs[index] for index in indexes], strategy), strict=True))
    return [rows[index] for index in range(len(pairs))]
