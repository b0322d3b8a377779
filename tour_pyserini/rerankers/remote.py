"""A re-ranker that runs elsewhere and is asked over HTTP: its address, how it speaks, its model, and its scores."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker
from tour_pyserini.support.http_client import JsonService, RefusedError, from_background
from tour_pyserini.support.model_files import encodable, fingerprint

log = logging.getLogger(__name__)

KEY_VARIABLE = "TOUR_PYSERINI_RERANKER_KEY"
ENDPOINTS = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score")
LONGEST_DEADLINE, MOST_RETRIES = 3600.0, 20
REQUESTS, BATCH_SIZE = 8, 32
FIRST_RETRIES = 2
"""Most retries when a service is asked for the first time: a wrong address should be reported soon."""
SMALLEST_PROBABILITY = 1e-7
"""Probabilities are cut to this distance from 0 and 1, which makes logits of 16.1 at most.

Services compute them in single precision, whose probabilities near 1 are 6e-8 apart."""
CONFIRM_EVERY = 1.0
"""Seconds between two questions whether the service still runs the same model."""
LARGEST = 3e38
"""Scores are single-precision numbers, or could be."""
TOO_LARGE = 413

# Options of re-rankers that run on this machine. Device, dtype and trust are those of a search's encoder, too.
_LOCAL_OPTIONS = ("backend", "precision", "prompt")

# A relevant and an irrelevant passage: raw scores of the two are not both between -1 and 1, as a rule.
_PROBE = ("who wrote hamlet", ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven."))


@dataclass(frozen=True)
class _ServiceAddress:
    """Where a re-ranking service is, and what its user says about it.

    Attributes:
        base: scheme, host, port and path, up to the endpoint.
        endpoint: such as `/rerank`, if the address says it.
        dialect: a name in `DIALECTS`.
        model: the model that the service runs.
        revision: a word that tells apart models of the same name.
        scores: what the service gives, `raw` logits or a `probability`.
        deadline: seconds for one try.
        retries: further tries.
    """

    base: str
    endpoint: str | None = None
    dialect: str | None = None
    model: str | None = None
    revision: str | None = None
    scores: str | None = None
    deadline: float = 60.0
    retries: int = 6

    def __str__(self) -> str:
        return self.base + (self.endpoint or "")


def is_service_address(spec: object) -> bool:
    """Whether a re-ranker's name is an address: text with `://`."""
    return isinstance(spec, str) and "://" in spec


def parse_address(text: str) -> _ServiceAddress:
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
    options: dict[str, Any] = dict(given)
    known = list(_ServiceAddress.__dataclass_fields__)[2:]
    for name in options:
        if name not in known:
            raise TourError(f"{shown} has no option {name!r}; the options are {', '.join(known)}.")
    if parts.fragment or len(options) < len(given) or not all(value.strip() for value in options.values()):
        raise TourError(f"{shown} has an option twice or without a value, or a part after #; give ?OPTION=VALUE&...")
    for name, words in (("dialect", tuple(DIALECTS)), ("scores", ("raw", "probability"))):
        if options.get(name, words[0]) not in words:
            raise TourError(f"the option {name} of {shown} is one of {', '.join(words)}, not {options[name]!r}.")
    for name, kind, least, most in (("deadline", float, 0.001, LONGEST_DEADLINE), ("retries", int, 0, MOST_RETRIES)):
        if name in options:
            value = None
            with suppress(ValueError):
                value = kind(options[name])
            if value is None or not least <= value <= most:
                raise TourError(f"the option {name} of {shown} is a number from {least} to {most:g}.")
            options[name] = value
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    endpoint = next((endpoint for endpoint in ENDPOINTS if base.endswith(endpoint)), None)
    if endpoint and endpoint.endswith("/score"):
        options.setdefault("dialect", "vllm")
    return _ServiceAddress(base.removesuffix(endpoint or ""), endpoint, **options)


@dataclass(frozen=True)
class _ServedModel:
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

    def __str__(self) -> str:
        return " ".join(value for value in (self.model, self.revision, self.dtype) if value)


@dataclass(frozen=True)
class Dialect:
    """How one kind of service speaks. Answers hold a list of items with `index` and `score` or `relevance_score`.

    Attributes:
        title: its name for people.
        endpoint: where scores are asked from if the address does not say it.
        info: the path that tells the model; None if there is nothing to ask.
        served: the model, from the JSON object at that path and the address; None for services of other dialects.
        request: the body of a request from query, passages, endpoint, model and whether raw scores are wanted.
        has_raw_scores: whether requests have a switch between raw scores and probabilities.
        scores_dtype: what the numbers of an answer are read as.
    """

    title: str
    endpoint: str
    info: str | None
    served: Callable[[Mapping[str, Any], _ServiceAddress], _ServedModel | None]
    request: Callable[[str, Sequence[str], str, str, bool], dict[str, Any]]
    has_raw_scores: bool = True
    scores_dtype: type = np.float64


def _tei_model(info: Mapping[str, Any], address: _ServiceAddress) -> _ServedModel | None:
    model, kind = _text(info.get("model_id")), info.get("model_type")
    if model is None or "model_type" not in info:
        return None
    if not isinstance(kind, dict) or "reranker" not in kind:
        kinds = ", ".join(map(str, kind)) if isinstance(kind, dict) else str(kind)
        raise TourError(f"the service {address.base} runs {model}, which is no re-ranker ({kinds}); choose another.")
    limits = _positive(info.get("max_input_length")), _positive(info.get("max_client_batch_size"))
    return _ServedModel(model, _text(info.get("model_sha")), _text(info.get("model_dtype")), *limits)


def _vllm_model(info: Mapping[str, Any], address: _ServiceAddress) -> _ServedModel | None:
    listed = info.get("data")
    cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    models = {card["id"]: card for card in cards if _text(card.get("id"))}
    if not any(card.get("owned_by") == "vllm" for card in cards) and address.dialect != "vllm":
        return None
    if not models:
        raise TourError(f"the service {address.base} does not tell at /v1/models which model it runs; check it.")
    model = address.model or next(iter(models))
    if model not in models:
        raise TourError(f"the service {address.base} does not serve {model}; it serves {', '.join(models)}.")
    # An adapter's parent is the model that it changes.
    sources = [_text(models[model].get(name)) for name in ("root", "parent")]
    revision = " ".join(source for source in sources if source and source != model)
    return _ServedModel(model, revision or None, max_length=_positive(models[model].get("max_model_len")))


def _vllm_request(query: str, passages: Sequence[str], endpoint: str, model: str, raw: bool) -> dict[str, Any]:
    # A smaller limit than the model's maximum is not set: it would cut the end of a template, too. Older versions know
    # only `activation`, which is not sent: `_gives_raw_scores` finds that the switch does nothing.
    body: dict[str, Any] = {"model": model, "use_activation": not raw, "truncate_prompt_tokens": -1}
    if endpoint.endswith("/score"):
        return {**body, "text_1": query, "text_2": list(passages)}
    return {**body, "query": query, "documents": list(passages), "top_n": len(passages)}


def _cohere_model(_: Mapping[str, Any], address: _ServiceAddress) -> _ServedModel | None:
    if address.dialect != "cohere" and (address.endpoint is None or not address.endpoint.endswith("/rerank")):
        return None
    if address.model is None:
        raise TourError(
            f"the service {address.base} does not tell which model it runs; add the model's name to the address: "
            f'"{address}?model=NAME".'
        )
    return _ServedModel(address.model)


def _cohere_request(query: str, passages: Sequence[str], endpoint: str, model: str, raw: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "query": query, "documents": list(passages), "top_n": len(passages)}
    # Version 2 never returns documents and has no such field. Raw scores are wanted only if the user says so.
    if not endpoint.startswith("/v2"):
        body["return_documents"] = False
    return {**body, "raw_scores": True} if raw else body


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "tei": Dialect(
            "text-embeddings-inference",
            "/rerank",
            "/info",
            _tei_model,
            lambda query, passages, endpoint, model, raw: {
                "query": query, "texts": list(passages), "raw_scores": raw, "truncate": True,
            },
            # It writes single-precision numbers in as few digits as identify them.
            scores_dtype=np.float32,
        ),
        "vllm": Dialect("vLLM", "/score", "/v1/models", _vllm_model, _vllm_request),
        "cohere": Dialect("Cohere or Jina", "/v2/rerank", None, _cohere_model, _cohere_request, has_raw_scores=False),
    }
)  # fmt: skip
"""Tried in this order: text-embeddings-inference (`/info`, `/rerank`), vLLM (`/v1/models`, `/score`, `/rerank`), and
Cohere or Jina (`/v1/rerank`, `/v2/rerank`), whom many others imitate and whose address names the model."""


def _read_scores(answer: Any, count: int) -> np.ndarray:
    """The scores [count] of an answer, in the order of the passages.

    Raises:
        ValueError: if the answer does not hold one finite score for each passage.
    """
    items = answer.get("data", answer.get("results")) if isinstance(answer, dict) else answer
    if not isinstance(items, list):
        raise ValueError("its scores are not a list")
    fields: list[dict[str, Any]] = [item if isinstance(item, dict) else {} for item in items]
    scores: dict[str, Any] = {str(item.get("index")): item.get("score", item.get("relevance_score")) for item in fields}
    if len(items) != count or scores.keys() != set(map(str, range(count))):
        raise ValueError(f"it does not have one score for each of {count} passages")
    if wrong := [score for score in scores.values() if type(score) not in (int, float) or not abs(score) <= LARGEST]:
        raise ValueError(f"a score is {wrong[0]!r}, not a finite number")
    return np.array([float(scores[str(index)]) for index in range(count)])


class RemoteReranker(PartsReranker):
    """A service that scores passages, asked in batches of one query, several of them at a time.

    A score depends on its pair alone, if it does so in the service: batches and their order do not matter.

    Args:
        spec: the address of the service, with the options that `parse_address` describes; the service is asked which
            model it runs, and what its scores are.
        options: `batch_size` is the most passages of a request, `threads` the number of requests at a time.

    Attributes:
        name: the address, for messages.
        fingerprint: made of the dialect, the model and the kind of scores; the same model on another host has the same.
        identity: what the fingerprint is made of.

    Raises:
        TourError: if the service is away, is none, or does not tell what its scores are or which model gives them.
    """

    def __init__(self, spec: str, options: Options) -> None:
        address = parse_address(spec)
        if given := [name for name in _LOCAL_OPTIONS if getattr(options, name) != getattr(Options, name)]:
            raise TourError(f"the service {address} decides itself about {' and '.join(given)}; leave it out.")
        self.name = str(address)
        self._address, self._requests = address, options.threads or REQUESTS
        self._service = JsonService(
            address.base,
            key=_read_key(address),
            key_variable=KEY_VARIABLE,
            deadline=address.deadline,
            retries=address.retries,
            connections=self._requests,
        )
        for _ in from_background(self._find):
            pass
        self._check_served(options)
        for raw in from_background(self._gives_raw_scores):
            self._raw = raw
        if not self._raw:
            limits = "labels are their logits, from -16.1 to 16.1, with fewer digits"
            log.warning("%s gives probabilities, not raw scores: %s", address, limits)
        served = self._served
        size = options.batch_size or BATCH_SIZE
        self._batch_size = min(size, served.largest_batch or size)
        self.identity = {
            "dialect": self._dialect,
            "model": served.model,
            "revision": " ".join(word for word in (served.revision, address.revision) if word) or None,
            "dtype": served.dtype,
            "max_length": served.max_length,
            "scores": "raw" if self._raw else f"logits of probabilities, cut at {SMALLEST_PROBABILITY}",
        }
        self.fingerprint = fingerprint("service", [], **self.identity)

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Ask for raw logits, and yield them about a second after they arrive at the latest.

        Before they are yielded, the service has told again that it runs the same model: it may have been started anew.

        Raises:
            TourError: if the service is away, gives a wrong answer, or no longer runs the same model.
        """
        return from_background(partial(self._score_all, pairs))

    async def _score_all(self, pairs: Sequence[Pair], hand_over: Callable[[Part], None]) -> None:
        batches = _make_batches(pairs, self._batch_size)
        arrived: list[Part] = []
        confirmed_at = time.monotonic()

        async def confirm(retries: int) -> None:
            nonlocal arrived, confirmed_at
            confirmed_at = time.monotonic()
            parts, arrived = arrived, []  # those that arrive from now on are confirmed the next time
            served = await self._ask_model(self._dialect, retries=retries)
            if served != self._served:
                now = "does not tell its model any more" if served is None else f"runs {served} now"
                raise TourError(
                    f"the service {self._address.base} {now}, and ran {self._served} when the command began; "
                    "run it again."
                )
            for part in parts:
                hand_over(part)

        async def work() -> None:
            for query, positions in batches:  # shared: each worker takes the next batch
                scores = await self._score(query, [encodable(pairs[position][1]) for position in positions])
                arrived.append((np.array(positions), scores if self._raw else self._logits(scores)))
                if time.monotonic() - confirmed_at >= CONFIRM_EVERY:
                    await confirm(self._address.retries)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._requests):
                    workers.create_task(work())
        except ExceptionGroup as failures:
            with suppress(TourError):
                await confirm(retries=0)  # what arrived before the failure is not lost
            raise failures.exceptions[0] from None
        if arrived:
            await confirm(self._address.retries)

    async def _score(self, query: str, passages: Sequence[str], *, raw: bool | None = None) -> np.ndarray:
        """The scores that the service gives to passages; raw ones if it can and `raw`, by default what it can, is set.

        A request that the service finds too large is split.
        """
        dialect = DIALECTS[self._dialect]
        body = dialect.request(query, passages, self._path, self._served.model, self._raw if raw is None else raw)
        try:
            answer = await self._service.ask(self._path, body)
        except RefusedError as error:
            if error.status != TOO_LARGE or len(passages) == 1:
                raise
            half = len(passages) // 2
            parts = [await self._score(query, part, raw=raw) for part in (passages[:half], passages[half:])]
            return np.concatenate(parts)
        try:
            return _read_scores(answer, len(passages)).astype(dialect.scores_dtype).astype(np.float64)
        except ValueError as error:
            raise TourError(
                f"{self._address.base}{self._path} gave a wrong answer ({error}); its scores are not used, check the "
                "service."
            ) from error

    def _logits(self, probabilities: np.ndarray) -> np.ndarray:
        wrong = probabilities[(probabilities < 0) | (probabilities > 1)]
        if len(wrong):
            raise TourError(
                f"the service {self.name} gave the score {wrong[0]}, which is no probability; if it gives raw scores, "
                "add the option scores=raw to its address."
            )
        inside = np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
        return np.log(inside) - np.log1p(-inside)

    async def _ask_model(self, dialect: str, *, retries: int) -> _ServedModel | None:
        """The model that the service runs; None if it does not speak this dialect."""
        info, path = {}, DIALECTS[dialect].info
        if path is not None:
            try:
                info = await self._service.ask(path, retries=retries)
            except RefusedError as error:
                # A missing key and an address that has moved are reported: another page would not help.
                if error.status == 401 or error.status < 400:
                    raise
        return DIALECTS[dialect].served(info if isinstance(info, dict) else {}, self._address)

    async def _find(self, _: Callable[[None], None]) -> None:
        """Find out the dialect of the service by its address or by asking it, and the model that it runs."""
        address = self._address
        for name, dialect in DIALECTS.items():
            if address.dialect in (None, name):
                served = await self._ask_model(name, retries=min(FIRST_RETRIES, address.retries))
                if served is not None:
                    self._dialect, self._path, self._served = name, address.endpoint or dialect.endpoint, served
                    return
        if address.dialect:
            raise TourError(
                f"the service {address} does not speak {DIALECTS[address.dialect].title}; check the address."
            )
        raise TourError(
            f"{address} is neither text-embeddings-inference nor vLLM; for a service that speaks as Cohere or Jina, "
            f'give the whole address and the model: "{address}/v1/rerank?model=NAME".'
        )

    def _check_served(self, options: Options) -> None:
        address, served = self._address, self._served
        if address.model not in (None, served.model):
            raise TourError(f"the service {address} runs {served.model}, not {address.model}; correct the address.")
        if served.model.startswith(("/", ".", "~")) and not (served.revision or address.revision):
            raise TourError(
                f"the service {address} tells only a folder of its own, {served.model}, as its model; add the option "
                "revision=WORD to its address, with a word that identifies the model, so that its labels can be cached."
            )
        if options.max_length not in (Options.max_length, served.max_length):
            cut = f"at {served.max_length} tokens" if served.max_length else "where it likes"
            raise TourError(f"the service {address} cuts long pairs itself, {cut}; leave the maximum length out.")

    async def _gives_raw_scores(self, hand_over: Callable[[bool], None]) -> None:
        """Whether scores are raw logits. Where requests have a switch for it, two of them show whether it works.

        Scores that the switch does not change and that are small can be probabilities, or cosines of an encoder (vLLM).
        """
        said = self._address.scores
        if said is not None or not DIALECTS[self._dialect].has_raw_scores:
            return hand_over(said == "raw")
        raw, other = [await self._score(*_PROBE, raw=wanted) for wanted in (True, False)]
        if np.array_equal(raw, other) and (np.abs(raw) <= 1).all():
            raise TourError(
                f"the service {self._address} gives the scores {raw[0]} and {raw[1]} whether raw ones are asked for or "
                "not; say what they are by the option scores=raw or scores=probability in its address."
            )
        return hand_over(True)


def _read_key(address: _ServiceAddress) -> str | None:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise TourError(f"the key in {KEY_VARIABLE} has characters that cannot be sent; set it again.")
    parts = urlsplit(address.base)
    if key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        log.warning("the key in %s is sent to %s without encryption", KEY_VARIABLE, parts.netloc)
    return key or None


def _make_batches(pairs: Sequence[Pair], size: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Each query with the positions of at most `size` of its pairs at a time."""
    by_query: dict[str, list[int]] = {}
    for position, (query, _) in enumerate(pairs):
        by_query.setdefault(encodable(query), []).append(position)
    for query, positions in by_query.items():
        for start in range(0, len(positions), size):
            yield query, positions[start : start + size]


def _positive(value: Any) -> int | None:
    """A whole number above 0 that a service says about itself, or None."""
    return value if type(value) is int and value > 0 else None


def _text(value: Any) -> str | None:
    """A text that a service says about itself, or None."""
    return value if isinstance(value, str) and value else None
