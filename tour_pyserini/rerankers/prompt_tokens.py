"""Tokenise (query, passage) pairs inside a prompt: the passage is cut, never the text around it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.options import SHORTEST_INPUT
from tour_pyserini.rerankers.prompts import BOS, PASSAGE, QUERY, Prompt
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row

_FIELD = re.compile(f"{re.escape(QUERY)}|{re.escape(PASSAGE)}")


class PromptTokens:
    """Tokenises pairs as parts of a prompt, each part on its own, as the authors of such models do.

    If an input is too long, the end of the passage is cut. A query that leaves no room for the passage is cut too, to
    half of the room if need be; what the prompt says between the two stays.

    Args:
        tokenizer: of transformers.
        prompt: what stands around query and passage.
        max_length: tokens per input, prompt included.
        name: the name of the model, for messages.
    """

    def __init__(self, tokenizer: Any, prompt: Prompt, *, max_length: int, name: str) -> None:
        self._tokenizer = tokenizer
        self._body = prompt.body
        self._head = (*prompt.body[:-1], prompt.body[-1].removesuffix(PASSAGE))
        self._start, self._middle = "".join(self._head).split(QUERY)
        before = [part.replace(BOS, tokenizer.bos_token or "") for part in prompt.before]
        self._before = [token for ids in self._ids(before) for token in ids]
        self._after = [token for ids in self._ids(prompt.after) for token in ids]
        self._room = max_length - len(self._before) - len(self._after)
        fixed = len(self._parts([("", "")], self._body)[0])
        if self._room < fixed + SHORTEST_INPUT:
            raise TourError(
                f"the prompt of {name} takes {max_length - self._room + fixed} tokens, which leaves no room for a pair "
                f"in {max_length}; give a greater maximum length (--reranker-max-length)."
            )

    def rows(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        """Tokenise each chunk of pairs, cut to the maximum length."""
        for pairs in chunks:
            yield [self._row(pair, body) for pair, body in zip(pairs, self._parts(pairs, self._body), strict=True)]

    def _row(self, pair: Pair, body: list[int]) -> Row:
        ids = [*self._before, *(body if len(body) <= self._room else self._cut(pair, body)), *self._after]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def _cut(self, pair: Pair, body: list[int]) -> list[int]:
        (head,) = self._parts([pair], self._head)
        if len(head) < self._room:
            return body[: self._room]
        start, query, middle, passage = self._ids([self._start, pair[0], self._middle, pair[1]])
        room = self._room - len(start) - len(middle)
        query = query[: max(room - len(passage), room // 2)]
        return start + query + middle + passage[: room - len(query)]

    def _parts(self, pairs: Sequence[Pair], parts: Sequence[str]) -> list[list[int]]:
        """The token ids of all parts of each pair, one after the other; each distinct text is tokenised once."""
        rows: list[list[int]] = [[] for _ in pairs]
        for part in parts:
            texts = [_filled(part, pair) for pair in pairs]
            distinct = list(dict.fromkeys(texts))
            ids = dict(zip(distinct, self._ids(distinct), strict=True))
            for row, text in zip(rows, texts, strict=True):
                row.extend(ids[text])
        return rows

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []


def _filled(part: str, pair: Pair) -> str:
    """A part of a prompt with its fields replaced in one go: a query may contain the word {passage}."""
    return _FIELD.sub(lambda field: pair[0] if field[0] == QUERY else pair[1], part)
