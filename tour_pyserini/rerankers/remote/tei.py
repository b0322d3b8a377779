"""The dialect of Hugging Face text-embeddings-inference (TEI).

`GET /info` tells the model; `POST /rerank {query, texts, raw_scores, truncate}` gives `[{index, score}]`, best first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.remote.dialect import (
    ServedModel,
    checked_items,
    positive_number,
    probe,
    text_or_none,
)
from tour_pyserini.rerankers.remote.service_address import ServiceAddress
from tour_pyserini.support.json_service import JsonService

NAME = "tei"
TITLE = "text-embeddings-inference"
ENDPOINT = "/rerank"
HAS_RAW_SCORES = True


async def served_model(service: JsonService, address: ServiceAddress, *, retries: int) -> ServedModel | None:
    """The model that `/info` tells; None if the service has no such page."""
    info = await probe(service, "/info", retries=retries)
    model = text_or_none(info.get("model_id")) if info else None
    if info is None or model is None or "model_type" not in info:
        return None
    kind = info["model_type"]
    if not isinstance(kind, dict) or "reranker" not in kind:
        kinds = ", ".join(map(str, kind)) if isinstance(kind, dict) else str(kind)
        raise TourError(f"the service {service.base} runs {model}, which is no re-ranker ({kinds}); choose another.")
    return ServedModel(
        model,
        revision=text_or_none(info.get("model_sha")),
        dtype=text_or_none(info.get("model_dtype")),
        max_length=positive_number(info.get("max_input_length")),
        largest_batch=positive_number(info.get("max_client_batch_size")),
    )


def request(query: str, passages: Sequence[str], *, endpoint: str, model: str, raw: bool) -> Mapping[str, Any]:
    """The body of a request; pairs that are too long are cut at the end."""
    return {"query": query, "texts": list(passages), "raw_scores": raw, "truncate": True}


def scores(answer: Any, count: int, *, endpoint: str) -> np.ndarray:
    """The scores of an answer, float64 [count].

    The service writes single-precision numbers in as few digits as identify them: they are read as such.
    """
    return checked_items(answer, count, score="score").astype(np.float32).astype(np.float64)
