"""A re-ranker that runs elsewhere and is asked over HTTP: its address, which model it runs, and its scores."""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.rerankers.remote_dialects import DIALECTS, AnswerError, AskedFor, Dialect, ServedModel
from tour_pyserini.rerankers.reranker import PRECISIONS_OF_DTYPES, Description, Pair, Part, PartsReranker
from tour_pyserini.support.http_client import (
    DEFAULT_PATIENCE,
    JsonService,
    Patience,
    RefusedError,
    ServiceAwayError,
    items_from_background,
    run_in_background,
)
from tour_pyserini.support.model_files import fingerprint
from tour_pyserini.support.tokens import encodable

log = logging.getLogger(__name__)

KEY_VARIABLE = "TOUR_PYSERINI_RERANKER_KEY"
ENDPOINTS = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score")
OPTIONS = ("dialect", "model", "revision", "scores", "deadline", "retries")
LONGEST_DEADLINE, MOST_RETRIES = 3600.0, 20
REQUESTS = 8
BATCH_SIZE = 32
FIRST_RETRIES = 2
"""Most retries when a service is asked for the first time: a wrong address should be reported soon."""
SMALLEST_PROBABILITY = 1e-7
"""Probabilities are cut to this distance from 0 and 1, which makes logits of 16.1 at most.

Services compute them in single precision, whose probabilities near 1 are 6e-8 apart."""
CONFIRM_EVERY = 1.0
"""Seconds between two questions whether the service still runs the same model."""
TOO_LARGE = 413

# Options of re-rankers that run on this machine. Device, dtype and trust are those of a search's encoder, too.
_LOCAL_OPTIONS = ("backend", "precision", "prompt")

# A relevant and an irrelevant passage: raw scores of the two are not both between -1 and 1, as a rule.
_PROBE = ("who wrote hamlet", ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven."))


@dataclass(frozen=True, kw_only=True)
class ServiceAddress:
    """Where a re-ranking service is, and what its user says about it.

    Attributes:
        base: scheme, host, port and path, up to the endpoint.
        asked: the dialect, the model and the endpoint, such as `/rerank`, where the address says them.
        revision: a word that tells apart models of the same name.
        scores: what the service gives, `raw` logits or a `probability`, if the user says so.
        patience: deadline and retries.
    """

    base: str
    asked: AskedFor
    revision: str | None = None
    scores: str | None = None
    patience: Patience = DEFAULT_PATIENCE

    def __str__(self) -> str:
        return self.base + (self.asked.endpoint or "")


def is_service_address(spec: object) -> bool:
    """Whether a re-ranker's name is an address: text with `://`."""
    return isinstance(spec, str) and "://" in spec


def parse_address(text: str) -> ServiceAddress:
    """Read an address such as `http://host:8080/rerank?model=NAME`.

    Options in the query part are for this package and are not sent: `dialect`, `model`, `revision`, `scores` (`raw` or
    `probability`), `deadline` (seconds for a try) and `retries`. No message repeats a password or the value of an
    unknown option.

    Raises:
        TourError: if it is not an address of a service, holds a password, or has an unknown or wrong option.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # a wrong port is found when it is read
    except ValueError:
        parts, host = SplitResult("", "", "", "", ""), None
    if "@" in parts.netloc:
        raise TourError(
            f"the address of the re-ranker at {parts.netloc.rpartition('@')[2]} holds a user name or a password, which "
            "would be written to records; leave it out and set a key in the environment (see docs/models.md)."
        )
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if not host or parts.scheme not in ("http", "https"):
        raise TourError(f"{shown!r} is not the address of a re-ranking service; give http://HOST:PORT/rerank.")
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    for name in options:
        if name not in OPTIONS:
            raise TourError(f"{shown} has no option {name!r}; the options are {', '.join(OPTIONS)}.")
    if parts.fragment or len(options) < len(given) or not all(value.strip() for value in options.values()):
        raise TourError(f"{shown} has an option twice or without a value, or a part after #; give ?OPTION=VALUE&...")
    for name, words in (("dialect", tuple(DIALECTS)), ("scores", ("raw", "probability"))):
        if options.get(name, words[0]) not in words:
            raise TourError(f"the option {name} of {shown} is one of {', '.join(words)}, not {options[name]!r}.")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    endpoint = next((endpoint for endpoint in ENDPOINTS if base.endswith(endpoint)), None)
    dialect = options.get("dialect") or ("vllm" if endpoint and endpoint.endswith("/score") else None)
    return ServiceAddress(
        base=base.removesuffix(endpoint or ""),
        asked=AskedFor(dialect, options.get("model"), endpoint),
        revision=options.get("revision"),
        scores=options.get("scores"),
        patience=Patience(
            _parse_number(options, "deadline", float, DEFAULT_PATIENCE.deadline, LONGEST_DEADLINE, shown),
            _parse_number(options, "retries", int, DEFAULT_PATIENCE.retries, MOST_RETRIES, shown),
        ),
    )


def _parse_number(
    options: Mapping[str, str], name: str, kind: Callable[[str], Any], default: Any, most: float, shown: str
) -> Any:
    try:
        value = kind(options.get(name, default))
    except ValueError:
        value = math.nan
    least = 0 if kind is int else 0.001
    if not least <= value <= most:
        raise TourError(f"the option {name} of {shown} is a number from {least} to {most:g}, not {options[name]!r}.")
    return value


def load_remote(spec: str, options: Options) -> "RemoteReranker":
    """Ask a service which model it runs, and make a re-ranker of it.

    Args:
        spec: its address, such as `http://host:8080/rerank`; `parse_address` describes the options in it.
        options: `batch_size` is the most passages of a request, `threads` the number of requests at a time.

    Raises:
        TourError: if the service is away, is none, or does not tell what its scores are or which model gives them.
    """
    address = parse_address(spec)
    given = [name for name in _LOCAL_OPTIONS if getattr(options, name) != getattr(Options, name)]
    if given:
        raise TourError(f"the service {address} decides itself about {' and '.join(given)}; leave it out.")
    requests = options.threads or REQUESTS
    service = JsonService(
        address.base,
        key=_read_key(address),
        key_variable=KEY_VARIABLE,
        patience=address.patience,
        connections=requests,
    )
    try:
        endpoint = run_in_background(find_endpoint(service, address))
    except ServiceAwayError as error:
        raise TourError(
            f"{error} Cached labels cannot be used without it: it tells which model they belong to."
        ) from error
    _check_served(address, endpoint.served, options)
    raw = run_in_background(_gives_raw_scores(endpoint))
    if not raw:
        log.warning(
            "%s gives probabilities, not raw scores: labels are their logits, from -16.1 to 16.1, with fewer digits",
            address,
        )
    return RemoteReranker(endpoint, raw=raw, batch_size=options.batch_size, requests=requests)


def _read_key(address: ServiceAddress) -> str | None:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise TourError(f"the key in {KEY_VARIABLE} has characters that cannot be sent; set it again.")
    parts = urlsplit(address.base)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        log.warning("the key in %s is sent to %s without encryption", KEY_VARIABLE, parts.netloc)
    return key


def _check_served(address: ServiceAddress, served: ServedModel, options: Options) -> None:
    if address.asked.model not in (None, served.model):
        raise TourError(f"the service {address} runs {served.model}, not {address.asked.model}; correct the address.")
    is_folder = served.model.startswith(("/", ".", "~"))
    if is_folder and not (served.revision or address.revision):
        raise TourError(
            f"the service {address} tells only a folder of its own, {served.model}, as its model; add the option "
            "revision=WORD to its address, with a word that identifies the model, so that its labels can be cached."
        )
    if options.max_length not in (Options.max_length, served.max_length):
        cut = f"at {served.max_length} tokens" if served.max_length else "where it likes"
        raise TourError(f"the service {address} cuts long pairs itself, {cut}; leave the maximum length out.")


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
        served = await self.dialect.served_model(self.service, self.address.asked, retries=retries)
        if served != self.served:
            now = "does not tell its model any more" if served is None else f"runs {_describe(served)} now"
            raise TourError(
                f"the service {self.service.base} {now}, and ran {_describe(self.served)} when the command began; "
                "run it again."
            )


async def find_endpoint(service: JsonService, address: ServiceAddress) -> RerankEndpoint:
    """Find out the dialect of a service by its address or by asking it, and the model that it runs.

    Raises:
        TourError: if the service is away, speaks no known dialect, or not the one that the address names.
    """
    wanted = address.asked.dialect
    retries = min(FIRST_RETRIES, address.patience.retries)
    for dialect in DIALECTS.values():
        if wanted in (None, dialect.name):
            served = await dialect.served_model(service, address.asked, retries=retries)
            if served is not None:
                path = address.asked.endpoint or dialect.endpoint
                return RerankEndpoint(service=service, address=address, dialect=dialect, path=path, served=served)
    if wanted:
        raise TourError(f"the service {address} does not speak {DIALECTS[wanted].title}; check the address.")
    raise TourError(
        f"{address} is neither text-embeddings-inference nor vLLM; for a service that speaks as Cohere or Jina, give "
        f'the whole address and the model: "{address}/v1/rerank?model=NAME".'
    )


async def _gives_raw_scores(endpoint: RerankEndpoint) -> bool:
    """Whether the scores are raw logits. Where requests have a switch for it, two of them show whether it works.

    Scores that the switch does not change and that are small can be probabilities, or cosines of an encoder (vLLM).
    """
    said = endpoint.address.scores
    if said is not None or not endpoint.dialect.has_raw_scores:
        return said == "raw"
    raw, other = [await endpoint.scores(*_PROBE, raw=wanted) for wanted in (True, False)]
    if np.array_equal(raw, other) and (np.abs(raw) <= 1).all():
        raise TourError(
            f"the service {endpoint.address} gives the scores {' and '.join(map(str, raw))} whether raw ones are asked "
            "for or not; say what they are by the option scores=raw or scores=probability in its address."
        )
    return True


def _describe(served: ServedModel) -> str:
    return " ".join(str(value) for value in (served.model, served.revision, served.dtype) if value)


class RemoteReranker(PartsReranker):
    """A service that scores passages, asked in batches of one query, several of them at a time.

    A score depends on its pair alone, if it does so in the service: batches and their order do not matter.

    Args:
        endpoint: where scores are asked from.
        raw: whether they are raw logits; if not, they are probabilities.
        batch_size: most passages of a request, if the service takes that many.
        requests: most requests at a time.

    Attributes:
        name: the address, for messages.
        fingerprint: made of the dialect, the model and the kind of scores; the same model on another host has the same.
        identity: what the fingerprint is made of.
        description: how the model is run, for people.
    """

    def __init__(self, endpoint: RerankEndpoint, *, raw: bool, batch_size: int | None, requests: int) -> None:
        served, dialect = endpoint.served, endpoint.dialect
        self.name = str(endpoint.address)
        self._endpoint, self._raw, self._requests = endpoint, raw, requests
        self._batch_size = min(batch_size or BATCH_SIZE, served.largest_batch or batch_size or BATCH_SIZE)
        self.identity = {
            "dialect": dialect.name,
            "model": served.model,
            "revision": " ".join(word for word in (served.revision, endpoint.address.revision) if word) or None,
            "dtype": served.dtype,
            "max_length": served.max_length,
            "scores": "raw" if raw else f"logits of probabilities, cut at {SMALLEST_PROBABILITY}",
        }
        self.fingerprint = fingerprint("service", [], **self.identity)
        dtype = served.dtype or "the service's own"
        self.description = Description(
            family=" ".join(word for word in (served.model, self.identity["revision"]) if isinstance(word, str)),
            score="raw" if raw else "logit of a probability",
            prompt="the service's own, if any",
            engine=f"{dialect.title} at {endpoint.service.base}{endpoint.path}",
            precision=PRECISIONS_OF_DTYPES.get(dtype, dtype),
            dtype=dtype,
            max_length=served.max_length,
        )

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Ask for raw logits, and yield them about a second after they arrive at the latest.

        Before they are yielded, the service has told again that it runs the same model: it may have been started anew.

        Raises:
            TourError: if the service is away, gives a wrong answer, or no longer runs the same model.
        """
        return items_from_background(partial(self._ask, pairs))

    async def _ask(self, pairs: Sequence[Pair], hand_over: Callable[[Part], None]) -> None:
        batches = _make_batches(pairs, self._batch_size)
        arrived: list[Part] = []
        confirmed_at = time.monotonic()

        async def confirm(retries: int | None = None) -> None:
            nonlocal arrived, confirmed_at
            confirmed_at = time.monotonic()
            parts, arrived = arrived, []  # those that arrive from now on are confirmed the next time
            await self._endpoint.check_model(retries=retries)
            for part in parts:
                hand_over(part)

        async def work() -> None:
            for query, positions in batches:  # shared: each worker takes the next batch
                scores = await self._scores(query, [encodable(pairs[position][1]) for position in positions])
                arrived.append((np.array(positions), scores))
                if time.monotonic() - confirmed_at >= CONFIRM_EVERY:
                    await confirm()

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._requests):
                    workers.create_task(work())
        except ExceptionGroup as failures:
            with suppress(TourError):
                await confirm(retries=0)  # what arrived before the failure is not lost
            raise failures.exceptions[0] from None
        if arrived:
            await confirm()

    async def _scores(self, query: str, passages: Sequence[str]) -> np.ndarray:
        try:
            scores = await self._endpoint.scores(query, passages, raw=self._raw)
        except RefusedError as error:
            if error.status != TOO_LARGE or len(passages) == 1:
                raise
            half = len(passages) // 2
            return np.concatenate([await self._scores(query, part) for part in (passages[:half], passages[half:])])
        return scores if self._raw else self._logits(scores)

    def _logits(self, probabilities: np.ndarray) -> np.ndarray:
        wrong = probabilities[(probabilities < 0) | (probabilities > 1)]
        if len(wrong):
            raise TourError(
                f"the service {self.name} gave the score {wrong[0]}, which is no probability; if it gives raw scores, "
                "add the option scores=raw to its address."
            )
        inside = np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return np.log(inside) - np.log1p(-inside)


def _make_batches(pairs: Sequence[Pair], size: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Each query with the positions of at most `size` of its pairs at a time."""
    by_query: dict[str, list[int]] = {}
    for position, (query, _) in enumerate(pairs):
        by_query.setdefault(encodable(query), []).append(position)
    for query, positions in by_query.items():
        for start in range(0, len(positions), size):
            yield query, positions[start : start + size]
