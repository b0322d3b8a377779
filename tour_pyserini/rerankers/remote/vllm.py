"""The dialect of vLLM.

`GET /v1/models` tells the model. `POST /score {model, text_1, text_2}` gives `{data: [{index, score}]}`;
`POST /rerank {model, query, documents}` gives `{results: [{index, relevance_score}]}`, best first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.remote.dialect import (
    ServedModel,
    checked_items,
    listed,
    positive_number,
    probe,
    text_or_none,
)
from tour_pyserini.rerankers.remote.service_address import ServiceAddress
from tour_pyserini.support.json_service import JsonService

NAME = "vllm"
TITLE = "vLLM"
ENDPOINT = "/score"
HAS_RAW_SCORES = True


async def served_model(service: JsonService, address: ServiceAddress, *, retries: int) -> ServedModel | None:
    """The model that `/v1/models` lists, or the one of them that the address names; None for other servers."""
    listing = await probe(service, "/v1/models", retries=retries)
    cards = listing.get("data") if listing else None
    cards = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    models = {card["id"]: card for card in cards if text_or_none(card.get("id"))}
    if not any(card.get("owned_by") == NAME for card in cards) and address.dialect != NAME:
        return None
    if not models:
        raise TourError(f"the service {service.base} does not tell at /v1/models which model it runs; check it.")
    model = address.model or next(iter(models))
    if model not in models:
        raise TourError(f"the service {service.base} does not serve {model}; it serves {', '.join(models)}.")
    # An adapter's parent is the model that it changes.
    sources = [models[model].get(name) for name in ("root", "parent")]
    return ServedModel(
        model,
        revision=" ".join(source for source in sources if isinstance(source, str) and source != model) or None,
        max_length=positive_number(models[model].get("max_model_len")),
    )


def request(query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool) -> Mapping[str, Any]:
    """The body of a request; only pairs longer than the model's maximum are cut.

    A smaller limit is not set: where the model reads a template, vLLM would cut the template's end, too.
    """
    texts: dict[str, Any] = (
        {"text_1": query, "text_2": list(passages)}
        if _is_score(endpoint)
        else {"query": query, "documents": list(passages), "top_n": len(passages)}
    )
    # Older versions know only `activation`, which is not sent: `load_remote` finds out that the switch does nothing.
    return {"model": model, **texts, "use_activation": not raw, "truncate_prompt_tokens": -1}


def scores(answer: Any, count: int, *, endpoint: str) -> np.ndarray:
    """The scores of an answer, float64 [count]."""
    if _is_score(endpoint):
        return checked_items(listed(answer, "data"), count, score="score")
    return checked_items(listed(answer, "results"), count, score="relevance_score")


def _is_score(endpoint: str) -> bool:
    return endpoint.endswith("/score")
