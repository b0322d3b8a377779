"""The dialect of Cohere and Jina, which many other services speak.

`POST /v1/rerank` or `/v2/rerank {model, query, documents, top_n}` gives `{results: [{index, relevance_score}]}`, best
first. The score is a probability for most services. There is nothing to ask which model runs: the address names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.remote.dialect import ServedModel, checked_items, listed
from tour_pyserini.rerankers.remote.service_address import ServiceAddress
from tour_pyserini.support.json_service import JsonService

NAME = "cohere"
TITLE = "Cohere or Jina"
ENDPOINT = "/v2/rerank"
HAS_RAW_SCORES = False


async def served_model(service: JsonService, address: ServiceAddress, *, retries: int) -> ServedModel | None:
    """The model that the address names; nothing is sent."""
    if address.dialect != NAME and (address.endpoint is None or not address.endpoint.endswith("/rerank")):
        return None
    if address.model is None:
        raise TourError(
            f"the service {service.base} does not tell which model it runs; add the model's name to the address: "
            f'"{address}?model=NAME".'
        )
    return ServedModel(address.model)


def request(query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool) -> Mapping[str, Any]:
    """The body of a request. `raw_scores` is sent only if the user says that the service gives raw scores."""
    body: dict[str, Any] = {"model": model, "query": query, "documents": list(passages), "top_n": len(passages)}
    if not endpoint.startswith("/v2"):  # version 2 never returns them and has no such field
        body["return_documents"] = False
    return {**body, "raw_scores": True} if raw else body


def scores(answer: Any, count: int, *, endpoint: str) -> np.ndarray:
    """The scores of an answer, float64 [count]."""
    return checked_items(listed(answer, "results"), count, score="relevance_score")
