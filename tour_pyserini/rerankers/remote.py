"""A re-ranker that runs elsewhere and is asked over HTTP: its address, how it speaks, its model, and its scores."""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker
from tour_pyserini.support.http_client import JsonService, RefusedError, for_each, from_background
from tour_pyserini.support.model_files import encodable, fingerprint

log = logging.getLogger(__name__)

KEY_VARIABLE = "TOUR_PYSERINI_RERANKER_KEY"
ENDPOINTS = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score")
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
_LOCAL_OPTIONS = ("max_length", "backend", "precision", "prompt")
_NUMBERS: Mapping[str, tuple[type, float, float]] = {"deadline": (float, 0.001, 3600), "retries": (int, 0, 20)}
_DEADLINE, _RETRIES = "60", "6"

# A relevant and an irrelevant passage: raw scores of the two are not both between -1 and 1, as a rule.
_PROBE = ("who wrote hamlet", ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven."))


@dataclass(frozen=True)
class _ServiceAddress:
    """Where a re-ranking service is, and what its user says about it.

    Attributes:
        base: scheme, host, port and path, up to the endpoint.
        deadline: seconds for one try.
        retries: further tries.
        endpoint: such as `/rerank`, if the address says it.
        dialect: a name in `_DIALECTS`.
        model: the model that the service runs.
        revision: a word that tells apart models of the same name.
        scores: what the service gives, `raw` logits or a `probability`.
    """

    base: str
    deadline: float
    retries: int
    endpoint: str | None = None
    dialect: str | None = None
    model: str | None = None
    revision: str | None = None
    scores: str | None = None

    def __str__(self) -> str:
        return self.base + (self.endpoint or "")


def is_service_address(spec: object) -> bool:
    """Whether a re-ranker's name is an address: text with `://`."""
    return isinstance(spec, str) and "://" in spec


def split_address(text: str, words: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, Any]]:
    """The address of a service, and the options in its query part, which are for this package and are not sent.

    Args:
        text: such as `http://host:8080/rerank?deadline=30`.
        words: the names of options, each with the words that it takes, or none if it takes any. Every service also has
            `deadline` (seconds for a try) and `retries`, which are numbers.

    Raises:
        TourError: if it is no address, holds a password, or has an unknown or wrong option. No message repeats a
            password or the value of an unknown option.
    """
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.scheme in ("http", "https") and not parts.fragment and parts.port != 0
    except ValueError:  # a wrong port, found when it is read
        parts, usable = urlsplit(""), False
    if "@" in parts.netloc:
        raise TourError(
            f"the address of the re-ranker at {parts.netloc.rpartition('@')[2]} holds a user name or a password, which "
            "would be written to records; leave it out and set a key in the environment (see docs/models.md)."
        )
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    if not usable:
        raise TourError(f"{base!r} is not the address of a re-ranking service; give http://HOST:PORT/rerank.")
    options: dict[str, Any] = {"deadline": _DEADLINE, "retries": _RETRIES, **dict(parse_qsl(parts.query))}
    for name, value in options.items():
        if name in _NUMBERS:
            kind, least, most = _NUMBERS[name]
            with suppress(ValueError):
                options[name] = kind(value)
            if isinstance(options[name], str) or not least <= options[name] <= most:
                raise TourError(f"the option {name} of {base} is a number from {least} to {most}.")
        elif name not in words:
            raise TourError(f"{base} has no option {name!r}; the options are {', '.join([*words, *_NUMBERS])}.")
        elif words[name] and value not in words[name]:
            raise TourError(f"the option {name} of {base} is one of {', '.join(words[name])}, not {value!r}.")
    return base, options


def _parse_address(text: str) -> _ServiceAddress:
    """Read an address such as `http://host:8080/rerank?model=NAME`."""
    words = {"dialect": list(_DIALECTS), "model": (), "revision": (), "scores": ("raw", "probability")}
    base, options = split_address(text, words)
    endpoint = next((endpoint for endpoint in ENDPOINTS if base.endswith(endpoint)), None)
    if endpoint and endpoint.endswith("/score"):
        options.setdefault("dialect", "vllm")
    return _ServiceAddress(base.removesuffix(endpoint or ""), endpoint=endpoint, **options)


class _ServedModel(NamedTuple):
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


class _Dialect(NamedTuple):
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
    if "model_id" not in info or "model_type" not in info:
        return None
    if "reranker" not in info["model_type"]:
        kind = ", ".join(info["model_type"])
        raise TourError(f"{address.base} runs {info['model_id']}, which is no re-ranker ({kind}); choose another.")
    names = ("model_sha", "model_dtype", "max_input_length", "max_client_batch_size")
    return _ServedModel(info["model_id"], *(info.get(name) for name in names))


def _vllm_model(info: Mapping[str, Any], address: _ServiceAddress) -> _ServedModel | None:
    models = {card["id"]: card for card in info.get("data") or ()}
    if address.dialect != "vllm" and not any(card.get("owned_by") == "vllm" for card in models.values()):
        return None
    if not models or address.model not in (None, *models):
        served = ", ".join(models) or "nothing that it tells at /v1/models"
        raise TourError(f"the service {address.base} does not serve {address.model or 'a model'}; it serves {served}.")
    model = address.model or next(iter(models))
    # An adapter's parent is the model that it changes.
    sources = [models[model].get(name) for name in ("root", "parent")]
    revision = " ".join(source for source in sources if source and source != model)
    return _ServedModel(model, revision or None, max_length=models[model].get("max_model_len"))


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


def _tei_request(query: str, passages: Sequence[str], endpoint: str, model: str, raw: bool) -> dict[str, Any]:
    return {"query": query, "texts": list(passages), "raw_scores": raw, "truncate": True}


_DIALECTS: Mapping[str, _Dialect] = {
    # It writes single-precision numbers in as few digits as identify them.
    "tei": _Dialect("text-embeddings-inference", "/rerank", "/info", _tei_model, _tei_request, scores_dtype=np.float32),
    "vllm": _Dialect("vLLM", "/score", "/v1/models", _vllm_model, _vllm_request),
    "cohere": _Dialect("Cohere or Jina", "/v2/rerank", None, _cohere_model, _cohere_request, has_raw_scores=False),
}
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
        spec: the address of the service with its options (`_ServiceAddress`); the service is asked which model it runs,
            and what its scores are.
        options: `batch_size` is the most passages of a request, `threads` the number of requests at a time.

    Attributes:
        name: the address, for messages.
        fingerprint: made of the dialect, the model and the kind of scores; the same model on another host has the same.
        identity: what the fingerprint is made of.

    Raises:
        TourError: if the service is away, is none, or does not tell what its scores are or which model gives them.
    """

    def __init__(self, spec: str, options: Options) -> None:
        self._address = address = _parse_address(spec)
        refuse_options(options, _LOCAL_OPTIONS, str(address))
        self.name, self._requests = str(address), options.threads or REQUESTS
        limits = {"retries": address.retries, "connections": self._requests}
        self._service = JsonService(address.base, key_variable=KEY_VARIABLE, deadline=address.deadline, **limits)
        self._confirmed_at = 0.0
        (self._raw,) = from_background(self._find)
        if not self._raw:
            said = "labels are their logits, from -16.1 to 16.1, with fewer digits"
            log.warning("%s gives probabilities, not raw scores: %s", address, said)
        served, size = self._served, options.batch_size or BATCH_SIZE
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
        """Ask for raw logits, and yield them as they arrive.

        About once a second, the service is asked before whether it still runs the same model: it may have been started
        anew.

        Raises:
            TourError: if the service is away, gives a wrong answer, or no longer runs the same model.
        """
        return from_background(partial(self._score_all, pairs))

    async def _score_all(self, pairs: Sequence[Pair], hand_over: Callable[[Part], None]) -> None:
        async def work(batch: tuple[str, Sequence[int]]) -> None:
            query, positions = batch
            scores = await self._score(query, [encodable(pairs[position][1]) for position in positions])
            await self._confirm_model()
            hand_over((np.array(positions), scores if self._raw else self._logits(scores)))

        await for_each(_make_batches(pairs, self._batch_size), work, at_once=self._requests)

    async def _confirm_model(self) -> None:
        if time.monotonic() - self._confirmed_at < CONFIRM_EVERY:
            return
        served = await self._ask_model(self._dialect)
        if served != self._served:
            words = [" ".join(filter(None, model[:3])) if model else "no model" for model in (served, self._served)]
            raise TourError(
                f"the service {self._address.base} runs {words[0]} now, and ran {words[1]} when the command began; "
                "run it again."
            )
        self._confirmed_at = time.monotonic()

    async def _score(self, query: str, passages: Sequence[str], *, raw: bool | None = None) -> np.ndarray:
        """The scores that the service gives to passages; raw ones if it can and `raw`, by default what it can, is set.

        A request that the service finds too large is split.
        """
        dialect = _DIALECTS[self._dialect]
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

    async def _ask_model(self, dialect: str, *, retries: int | None = None) -> _ServedModel | None:
        """The model that the service runs; None if it does not speak this dialect."""
        info, path = {}, _DIALECTS[dialect].info
        if path is not None:
            try:
                info = await self._service.ask(path, retries=retries)
            except RefusedError as error:
                # A missing key and an address that has moved are reported: another page would not help.
                if error.status == 401 or error.status < 400:
                    raise
        try:
            return _DIALECTS[dialect].served(info, self._address)
        except (AttributeError, KeyError, TypeError):  # another page, of another shape
            return None

    async def _find(self, hand_over: Callable[[bool], None]) -> None:
        """Find out the dialect of the service, the model that it runs, and whether it gives raw logits."""
        address = self._address
        for name in (address.dialect,) if address.dialect else _DIALECTS:
            if served := await self._ask_model(name, retries=min(FIRST_RETRIES, address.retries)):
                break
        else:
            spoken = _DIALECTS[address.dialect].title if address.dialect else "TEI or vLLM"
            raise TourError(
                f"the service {address} does not speak {spoken}; check the address; for one that speaks as Cohere or "
                f'Jina, give the whole address and the model: "{address.base}/v1/rerank?model=NAME".'
            )
        self._dialect, self._path, self._served = name, address.endpoint or _DIALECTS[name].endpoint, served
        if address.model not in (None, served.model):
            raise TourError(f"the service {address} runs {served.model}, not {address.model}; correct the address.")
        if served.model.startswith(("/", ".", "~")) and not (served.revision or address.revision):
            raise TourError(
                f"the service {address} tells only a folder of its own, {served.model}, as its model; add the option "
                "revision=WORD to its address, with a word that identifies the model, so that its labels can be cached."
            )
        hand_over(await self._gives_raw_scores())

    async def _gives_raw_scores(self) -> bool:
        """Whether scores are raw logits. Where requests have a switch for it, two of them show whether it works.

        Scores that the switch does not change and that are small can be probabilities, or cosines of an encoder (vLLM).
        """
        said = self._address.scores
        if said is not None or not _DIALECTS[self._dialect].has_raw_scores:
            return said == "raw"
        raw, other = [await self._score(*_PROBE, raw=wanted) for wanted in (True, False)]
        if np.array_equal(raw, other) and (np.abs(raw) <= 1).all():
            raise TourError(
                f"the service {self._address} gives the scores {raw[0]} and {raw[1]} whether raw ones are asked for or "
                "not; say what they are by the option scores=raw or scores=probability in its address."
            )
        return True


def refuse_options(options: Options, names: Sequence[str], service: str) -> None:
    """Refuse options that a service decides about itself."""
    if given := [name for name in names if getattr(options, name) != getattr(Options, name)]:
        raise TourError(f"the service {service} decides itself about {' and '.join(given)}; leave it out.")


def _make_batches(pairs: Sequence[Pair], size: int) -> Iterator[tuple[str, Sequence[int]]]:
    """Each query with the positions of at most `size` of its pairs at a time."""
    by_query: dict[str, list[int]] = {}
    for position, (query, _) in enumerate(pairs):
        by_query.setdefault(encodable(query), []).append(position)
    for query, positions in by_query.items():
        for start in range(0, len(positions), size):
            yield query, positions[start : start + size]
