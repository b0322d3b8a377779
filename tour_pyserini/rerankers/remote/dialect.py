"""What a dialect of re-ranking services is, and the check of every answer."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tour_pyserini.rerankers.remote.service_address import ServiceAddress
from tour_pyserini.support.json_service import JsonService, RefusedError

LARGEST = 3e38
"""Scores are single-precision numbers, or could be."""


class ServedModel(NamedTuple):
    """What a service says about the model that it runs; None where it does not say it.

    Attributes:
        model: its name.
        revision: what tells it apart from other models of that name.
        dtype: the numbers it computes with.
        max_length: tokens of a pair; longer pairs are cut by the service.
        largest_batch: most passages of a request.
    """

    model: str
    revision: str | None = None
    dtype: str | None = None
    max_length: int | None = None
    largest_batch: int | None = None


class Dialect(Protocol):
    """A module that speaks with one kind of service.

    Attributes:
        NAME: its name in addresses and records.
        TITLE: its name for people.
        ENDPOINT: where scores are asked from if the address does not say it.
        HAS_RAW_SCORES: whether requests have a switch between raw scores and probabilities.
    """

    NAME: str
    TITLE: str
    ENDPOINT: str
    HAS_RAW_SCORES: bool

    async def served_model(self, service: JsonService, address: ServiceAddress, *, retries: int) -> ServedModel | None:
        """The model that the service runs; None if it does not speak this dialect."""
        ...

    def request(
        self, query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool
    ) -> Mapping[str, Any]:
        """The body of a request for the scores of passages."""
        ...

    def scores(self, answer: Any, count: int, *, endpoint: str) -> np.ndarray:
        """The scores of an answer, float64 [count], in the order of the passages.

        Raises:
            AnswerError: if the answer does not hold one finite score for each passage.
        """
        ...


class AnswerError(ValueError):
    """An answer that cannot be right; the message says what is wrong with it."""


async def probe(service: JsonService, path: str, *, retries: int) -> Mapping[str, Any] | None:
    """The JSON object at a path, or None if the service has no such thing there.

    A missing key and an address that has moved are reported: another page would not help.
    """
    try:
        value = await service.get(path, retries=retries)
    except RefusedError as error:
        if error.status == 401 or error.status < 400:
            raise
        return None
    return value if isinstance(value, dict) else None


def listed(answer: Any, name: str) -> Any:
    """The list of that name in an answer that is a JSON object."""
    if not isinstance(answer, dict) or name not in answer:
        raise AnswerError(f"it has no {name!r}")
    return answer[name]


def checked_items(items: Any, count: int, *, score: str) -> np.ndarray:
    """The scores of items `{"index": 0, SCORE: 1.5}` that come in any order.

    Args:
        items: the items of an answer.
        count: number of passages that were sent.
        score: the name of the score in an item.

    Returns:
        float64 [count], by index.
    """
    if not isinstance(items, list):
        raise AnswerError("its scores are not a list")
    if len(items) != count:
        raise AnswerError(f"it has {len(items)} scores for {count} passages")
    scores: dict[int, float] = {}
    for item in items:
        fields: Mapping[str, Any] = item if isinstance(item, dict) else {}
        index, value = fields.get("index"), fields.get(score)
        if type(index) is not int or not 0 <= index < count:
            raise AnswerError(f"a score has the index {index!r}, and the passages have 0 to {count - 1}")
        if index in scores:
            raise AnswerError(f"the index {index} comes twice")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise AnswerError(f"the {score} of index {index} is {value!r}, not a finite number")
        scores[index] = float(value)
    return np.array([scores[index] for index in range(count)])


def positive_number(value: Any) -> int | None:
    """A whole number above 0 that a service says about itself, or None."""
    return value if type(value) is int and value > 0 else None


def text_or_none(value: Any) -> str | None:
    """A text that a service says about itself, or None."""
    return value if isinstance(value, str) and value else None
