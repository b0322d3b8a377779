"""The address of a re-ranking service, and the options in its query part."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from tour_pyserini.errors import TourError
from tour_pyserini.support.json_service import DEFAULT_PATIENCE, Patience

ENDPOINTS = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score")
OPTIONS = ("dialect", "model", "revision", "scores", "deadline", "retries")
SCORES = ("raw", "probability")
LONGEST_DEADLINE = 3600.0
MOST_RETRIES = 20


@dataclass(frozen=True, kw_only=True)
class ServiceAddress:
    """Where a re-ranking service is, and what its user says about it.

    Attributes:
        base: scheme, host, port and path, up to the endpoint.
        endpoint: what scores are asked from, such as `/rerank`; None if the address ends before it.
        dialect: how the service speaks, if the user says so.
        model: the name of the model; some dialects send it with each request.
        revision: a word that tells apart models of the same name.
        scores: what the service gives, `raw` logits or a `probability`, if the user says so.
        patience: deadline and retries.
    """

    base: str
    endpoint: str | None = None
    dialect: str | None = None
    model: str | None = None
    revision: str | None = None
    scores: str | None = None
    patience: Patience = DEFAULT_PATIENCE

    def __str__(self) -> str:
        return self.base + (self.endpoint or "")


def is_service_address(spec: object) -> bool:
    """Whether a re-ranker's name is an address: text with `://`."""
    return isinstance(spec, str) and "://" in spec


def parse_address(text: str, *, dialects: Sequence[str]) -> ServiceAddress:
    """Read an address such as `http://host:8080/rerank?model=NAME`.

    Options in the query part are for this package and are not sent: `dialect`, `model`, `revision`, `scores` (`raw` or
    `probability`), `deadline` (seconds for a try) and `retries`. No message repeats a password or the value of an
    unknown option.

    Args:
        text: the address.
        dialects: the names of the dialects that there are.

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
    options = _options(parts, shown)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    endpoint = next((endpoint for endpoint in ENDPOINTS if base.endswith(endpoint)), None)
    return ServiceAddress(
        base=base.removesuffix(endpoint or ""),
        endpoint=endpoint,
        dialect=_word(options, "dialect", dialects, shown),
        model=options.get("model"),
        revision=options.get("revision"),
        scores=_word(options, "scores", SCORES, shown),
        patience=Patience(
            _number(options, "deadline", float, DEFAULT_PATIENCE.deadline, LONGEST_DEADLINE, shown),
            _number(options, "retries", int, DEFAULT_PATIENCE.retries, MOST_RETRIES, shown),
        ),
    )


def _options(parts: SplitResult, shown: str) -> dict[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    names = [name for name, _ in given]
    for name in names:
        if name not in OPTIONS:
            raise TourError(f"{shown} has no option {name!r}; the options are {', '.join(OPTIONS)}.")
        if names.count(name) > 1:
            raise TourError(f"{shown} has the option {name} twice; give it once.")
    if parts.fragment or not all(value.strip() for _, value in given):
        raise TourError(f"{shown} has an option without a value, or a part after #; give OPTION=VALUE after a ?.")
    return dict(given)


def _word(options: Mapping[str, str], name: str, words: Sequence[str], shown: str) -> str | None:
    value = options.get(name)
    if value is not None and value not in words:
        raise TourError(f"the option {name} of {shown} is one of {', '.join(words)}, not {value!r}.")
    return value


def _number(
    options: Mapping[str, str], name: str, kind: Callable[[str], Any], default: Any, most: float, shown: str
) -> Any:
    if name not in options:
        return default
    try:
        value = kind(options[name])
    except ValueError:
        value = math.nan
    least = 0 if kind is int else 0.001
    if not least <= value <= most:
        raise TourError(f"the option {name} of {shown} is a number from {least} to {most:g}, not {options[name]!r}.")
    return value
