"""The endpoint of a service that scores passages: finding it, asking it, and which model is behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.remote import cohere, tei, vllm
from tour_pyserini.rerankers.remote.dialect import AnswerError, Dialect, ServedModel
from tour_pyserini.rerankers.remote.service_address import ServiceAddress
from tour_pyserini.support.json_service import JsonService

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.NAME: dialect for dialect in (tei, vllm, cohere)})
"""Tried in this order. To add one, write a module with what `Dialect` describes, and add it and its import here."""
FIRST_RETRIES = 2
"""Most retries when a service is asked for the first time: a wrong address should be reported soon."""


@dataclass(frozen=True, kw_only=True)
class RerankEndpoint:
    """Where scores are asked from, in which dialect, and from which model.

    Attributes:
        service: the web service.
        address: what the user gave.
        dialect: how it speaks.
        path: the endpoint, such as `/rerank`.
        served: the model that it ran when it was found.
    """

    service: JsonService
    address: ServiceAddress
    dialect: Dialect
    path: str
    served: ServedModel

    async def scores(self, query: str, passages: Sequence[str], *, raw: bool) -> np.ndarray:
        """The scores that the service gives to passages, float64 [len(passages)]; raw ones if it can and `raw` is set.

        Raises:
            TourError: if the service is away, or its answer does not hold one finite score for each passage.
        """
        body = self.dialect.request(query, passages, endpoint=self.path, model=self.served.model, raw=raw)
        answer = await self.service.post(self.path, body)
        try:
            return self.dialect.scores(answer, len(passages), endpoint=self.path)
        except AnswerError as error:
            raise TourError(
                f"{self.service.base}{self.path} gave a wrong answer ({error}); its scores are not used, check the "
                "service."
            ) from error

    async def check_model(self, *, retries: int | None = None) -> None:
        """Raise a TourError if the service no longer runs the model that it ran when it was found."""
        retries = self.address.patience.retries if retries is None else retries
        served = await self.dialect.served_model(self.service, self.address, retries=retries)
        if served != self.served:
            now = "does not tell its model any more" if served is None else f"runs {_shown(served)} now"
            raise TourError(
                f"the service {self.service.base} {now}, and ran {_shown(self.served)} when the command began; "
                "run it again."
            )


async def find_endpoint(service: JsonService, address: ServiceAddress) -> RerankEndpoint:
    """Find out the dialect of a service by its address or by asking it, and the model that it runs.

    Raises:
        TourError: if the service is away, speaks no known dialect, or not the one that the address names.
    """
    if address.endpoint and address.endpoint.endswith("/score"):
        address = replace(address, dialect=address.dialect or vllm.NAME)
    retries = min(FIRST_RETRIES, address.patience.retries)
    for dialect in DIALECTS.values():
        if address.dialect in (None, dialect.NAME):
            served = await dialect.served_model(service, address, retries=retries)
            if served is not None:
                path = address.endpoint or dialect.ENDPOINT
                return RerankEndpoint(service=service, address=address, dialect=dialect, path=path, served=served)
    if address.dialect:
        raise TourError(f"the service {address} does not speak {DIALECTS[address.dialect].TITLE}; check the address.")
    raise TourError(
        f"{address} is neither text-embeddings-inference nor vLLM; for a service that speaks as Cohere or Jina, give "
        f'the whole address and the model: "{address}/v1/rerank?model=NAME".'
    )


def _shown(served: ServedModel) -> str:
    return " ".join(str(value) for value in (served.model, served.revision, served.dtype) if value)
