"""The routes of re-ranking, in the dialects of text-embeddings-inference and of Cohere, Jina and vLLM."""

import math
import uuid
from typing import Any

import numpy as np
from fastapi import APIRouter, Request

from tour_pyserini.errors import RequestError
from tour_pyserini.service.dispatcher import Dispatcher
from tour_pyserini.service.messages import DocumentScore, DocumentText, RerankBody, Reranked, TextScore
from tour_pyserini.service.request_limits import check_characters, check_query


def rerank_routes(dispatcher: Dispatcher) -> APIRouter:
    """`/rerank`, also as `/v1/rerank` and `/v2/rerank`, and `/info`, which tells what is behind it."""
    routes = APIRouter(tags=["re-rank"])
    limits, collection = dispatcher.collection.request, dispatcher.collection

    @routes.post("/rerank")
    @routes.post("/v1/rerank", include_in_schema=False)
    @routes.post("/v2/rerank", include_in_schema=False)
    async def rerank(body: RerankBody, request: Request) -> list[TextScore] | Reranked:
        """Score passages for a query, best first.

        With `texts`, the answer is that of text-embeddings-inference; with `documents`, that of Cohere, Jina and vLLM.
        Scores are probabilities, or raw logits with `raw_scores`. The model is the service's: `model` is not read.
        """
        check_query(body.query, limits)
        passages = _passages(body)
        if not 1 <= len(passages) <= limits.most_labels:
            raise RequestError(f"a request has 1 to {limits.most_labels} passages, not {len(passages)}.")
        scores = np.array(await dispatcher.rerank(body.query, passages, request))
        order = np.argsort(-scores, kind="stable")[: body.top_n].tolist()
        shown = [float(score) if body.raw_scores else _probability(score) for score in scores]
        if body.texts is not None:
            return [TextScore(index=i, score=shown[i], text=passages[i] if body.return_text else None) for i in order]
        results = [
            DocumentScore(
                index=i,
                relevance_score=shown[i],
                document=DocumentText(text=passages[i]) if body.return_documents else None,
            )
            for i in order
        ]
        return Reranked(id=uuid.uuid4().hex, model=collection.reranker_name, results=results)

    @routes.get("/info")
    def info() -> dict[str, Any]:
        """Which re-ranker runs here, in the words of text-embeddings-inference."""
        inner = getattr(collection.reranker, "reranker", collection.reranker)
        description = getattr(inner, "description", None)
        return {
            "model_id": collection.reranker_name,
            "model_sha": getattr(collection.reranker, "fingerprint", None),
            "model_dtype": getattr(description, "dtype", None) or "float32",
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_input_length": getattr(description, "max_length", None) or limits.reranker_max_length,
            "max_client_batch_size": limits.most_labels,
        }

    return routes


def _passages(body: RerankBody) -> list[str]:
    if (body.texts is None) == (body.documents is None):
        raise RequestError("give either `texts` or `documents`: the passages to score.")
    passages = []
    for document in body.texts if body.texts is not None else body.documents or []:
        text = document.get("text") if isinstance(document, dict) else document
        if not isinstance(text, str):
            raise RequestError("a document is a text, or an object with a field `text`.")
        check_characters(text, "a document")
        passages.append(text)
    return passages


def _probability(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
