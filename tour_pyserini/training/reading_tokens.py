"""A question and a passage as a reader reads them."""

from collections.abc import Sequence

import numpy as np

from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batching import Row
from tour_pyserini.rerankers.pair_tokens import INPUTS, SlowPairTokens


class ReadingTokens(SlowPairTokens):
    """Pairs cut as re-rankers cut them, with the characters of the passage where each token has its `begin` and `end`.

    Both are 0 for tokens that are not the passage's. The tokenizer is a fast one.
    """

    def _encode(self, pairs: list[Pair], way: str) -> Sequence[Row]:
        questions, passages = (list(texts) for texts in zip(*pairs, strict=True))
        cut = {"truncation": way, "max_length": self._max_length}
        coded = self._tokenizer(questions, passages, **cut, return_offsets_mapping=True)
        rows = []
        for number, offsets in enumerate(coded["offset_mapping"]):
            ours = np.array([sequence == 1 for sequence in coded.sequence_ids(number)])
            begin, end = np.where(ours[:, None], offsets, 0).T
            inputs = {name: coded[name][number] for name in INPUTS if name in coded}
            rows.append({**inputs, "begin": begin, "end": end})
        return rows
