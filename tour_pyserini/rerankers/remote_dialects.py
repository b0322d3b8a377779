"""How re-ranking services speak: text-embeddings-inference, vLLM, and Cohere or Jina, whom many others imitate."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.support.http_client import JsonService, RefusedError

LARGEST = 3e38
"""Scores are single-precision numbers, or could be."""


class ServedModel(NamedTuple):
    """What a service says about the model that it runs; None where it does not say it.

    Attributes:
        model: its name.
        revision: what tells it apart from other models of that name.
        dtype: what it computes with.
        max_length: tokens of a pair; longer pairs are cut by the service.
        largest_batch: most passages of a request.
    """

    model: str
    revision: str | None = None
    dtype: str | None = None
    max_length: int | None = None
    largest_batch: int | None = None


class AskedFor(NamedTuple):
    """What the user's address says: the dialect, the model and the endpoint, where it says them."""

    dialect: str | None
    model: str | None
    endpoint: str | None


class AnswerError(ValueError):
    """An answer that cannot be right; the message says what is wrong with it."""


class Dialect(Protocol):
    """Speaks with one kind of service.

    Attributes:
        name: its name in addresses and records.
        title: its name for people.
        endpoint: where scores are asked from if the address does not say it.
        has_raw_scores: whether requests have a switch between raw scores and probabilities.
    """

    name: str
    title: str
    endpoint: str
    has_raw_scores: bool

    async def served_model(self, service: JsonService, asked: AskedFor, *, retries: int) -> ServedModel | None:
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


class Tei:
    """Hugging Face text-embeddings-inference.

    `GET /info` tells the model; `POST /rerank {query, texts, raw_scores, truncate}` gives `[{index, score}]`, best
    first.
    """

    name = "tei"
    title = "text-embeddings-inference"
    endpoint = "/rerank"
    has_raw_scores = True

    async def served_model(self, service: JsonService, asked: AskedFor, *, retries: int) -> ServedModel | None:
        """The model that `/info` tells; None if the service has no such page."""
        info = await _probe(service, "/info", retries=retries)
        model = _text(info.get("model_id"))
        if model is None or "model_type" not in info:
            return None
        kind = info["model_type"]
        if not isinstance(kind, dict) or "reranker" not in kind:
            kinds = ", ".join(map(str, kind)) if isinstance(kind, dict) else str(kind)
            raise TourError(
                f"the service {service.base} runs {model}, which is no re-ranker ({kinds}); choose another."
            )
        return ServedModel(
            model,
            revision=_text(info.get("model_sha")),
            dtype=_text(info.get("model_dtype")),
            max_length=_positive(info.get("max_input_length")),
            largest_batch=_positive(info.get("max_client_batch_size")),
        )

    def request(
        self, query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool
    ) -> Mapping[str, Any]:
        """The body of a request; pairs that are too long are cut at the end."""
        return {"query": query, "texts": list(passages), "raw_scores": raw, "truncate": True}

    def scores(self, answer: Any, count: int, *, endpoint: str) -> np.ndarray:
        """The scores of an answer, float64 [count].

        The service writes single-precision numbers in as few digits as identify them: they are read as such.
        """
        return _read_items(answer, count, score="score").astype(np.float32).astype(np.float64)


class Vllm:
    """vLLM.

    `GET /v1/models` tells the model. `POST /score {model, text_1, text_2}` gives `{data: [{index, score}]}`;
    `POST /rerank {model, query, documents}` gives `{results: [{index, relevance_score}]}`, best first.
    """

    name = "vllm"
    title = "vLLM"
    endpoint = "/score"
    has_raw_scores = True

    async def served_model(self, service: JsonService, asked: AskedFor, *, retries: int) -> ServedModel | None:
        """The model that `/v1/models` lists, or the one of them that the address names; None for other servers."""
        cards = (await _probe(service, "/v1/models", retries=retries)).get("data")
        cards = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
        models = {card["id"]: card for card in cards if _text(card.get("id"))}
        if not any(card.get("owned_by") == self.name for card in cards) and asked.dialect != self.name:
            return None
        if not models:
            raise TourError(f"the service {service.base} does not tell at /v1/models which model it runs; check it.")
        model = asked.model or next(iter(models))
        if model not in models:
            raise TourError(f"the service {service.base} does not serve {model}; it serves {', '.join(models)}.")
        # An adapter's parent is the model that it changes.
        sources = [models[model].get(name) for name in ("root", "parent")]
        return ServedModel(
            model,
            revision=" ".join(source for source in sources if isinstance(source, str) and source != model) or None,
            max_length=_positive(models[model].get("max_model_len")),
        )

    def request(
        self, query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool
    ) -> Mapping[str, Any]:
        """The body of a request; only pairs longer than the model's maximum are cut.

        A smaller limit is not set: where the model reads a template, vLLM would cut the template's end, too.
        """
        texts: dict[str, Any] = (
            {"text_1": query, "text_2": list(passages)}
            if endpoint.endswith("/score")
            else {"query": query, "documents": list(passages), "top_n": len(passages)}
        )
        # Older versions know only `activation`, which is not sent: `load_remote` finds that the switch does nothing.
        return {"model": model, **texts, "use_activation": not raw, "truncate_prompt_tokens": -1}

    def scores(self, answer: Any, count: int, *, endpoint: str) -> np.ndarray:
        """The scores of an answer, float64 [count]."""
        if endpoint.endswith("/score"):
            return _read_items(_list_in(answer, "data"), count, score="score")
        return _read_items(_list_in(answer, "results"), count, score="relevance_score")


class Cohere:
    """Cohere and Jina.

    `POST /v1/rerank` or `/v2/rerank {model, query, documents, top_n}` gives `{results: [{index, relevance_score}]}`,
    best first. The score is a probability for most services. There is nothing to ask which model runs: the address
    names it.
    """

    name = "cohere"
    title = "Cohere or Jina"
    endpoint = "/v2/rerank"
    has_raw_scores = False

    async def served_model(self, service: JsonService, asked: AskedFor, *, retries: int) -> ServedModel | None:
        """The model that the address names; nothing is sent."""
        if asked.dialect != self.name and (asked.endpoint is None or not asked.endpoint.endswith("/rerank")):
            return None
        if asked.model is None:
            address = service.base + (asked.endpoint or "")
            raise TourError(
                f"the service {service.base} does not tell which model it runs; add the model's name to the address: "
                f'"{address}?model=NAME".'
            )
        return ServedModel(asked.model)

    def request(
        self, query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool
    ) -> Mapping[str, Any]:
        """The body of a request. `raw_scores` is sent only if the user says that the service gives raw scores."""
        body: dict[str, Any] = {"model": model, "query": query, "documents": list(passages), "top_n": len(passages)}
        if not endpoint.startswith("/v2"):  # version 2 never returns them and has no such field
            body["return_documents"] = False
        return {**body, "raw_scores": True} if raw else body

    def scores(self, answer: Any, count: int, *, endpoint: str) -> np.ndarray:
        """The scores of an answer, float64 [count]."""
        return _read_items(_list_in(answer, "results"), count, score="relevance_score")


DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in (Tei(), Vllm(), Cohere())})
"""Tried in this order. To add one, write a class with what `Dialect` describes, and add it here."""


async def _probe(service: JsonService, path: str, *, retries: int) -> Mapping[str, Any]:
    """The JSON object at a path, or an empty one if the service has no such thing there.

    A missing key and an address that has moved are reported: another page would not help.
    """
    try:
        value = await service.get(path, retries=retries)
    except RefusedError as error:
        if error.status == 401 or error.status < 400:
            raise
        return {}
    return value if isinstance(value, dict) else {}


def _list_in(answer: Any, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise AnswerError(f"it has no {name!r}")
    return answer[name]


def _read_items(items: Any, count: int, *, score: str) -> np.ndarray:
    """The scores [count] of items `{"index": 0, SCORE: 1.5}` that come in any order, by index."""
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


def _positive(value: Any) -> int | None:
    """A whole number above 0 that a service says about itself, or None."""
    return value if type(value) is int and value > 0 else None


def _text(value: Any) -> str | None:
    """A text that a service says about itself, or None."""
    return value if isinstance(value, str) and value else None
