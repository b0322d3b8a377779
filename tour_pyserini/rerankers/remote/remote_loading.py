"""Make a re-ranker of a service: ask which model it runs, and whether its scores are raw."""

import logging
import os
from urllib.parse import urlsplit

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.remote.dialect import ServedModel
from tour_pyserini.rerankers.remote.remote_reranker import RemoteReranker
from tour_pyserini.rerankers.remote.rerank_endpoint import DIALECTS, RerankEndpoint, find_endpoint
from tour_pyserini.rerankers.remote.service_address import ServiceAddress, parse_address
from tour_pyserini.support.background_loop import run_in_background
from tour_pyserini.support.json_service import JsonService, ServiceAwayError

log = logging.getLogger(__name__)

KEY_VARIABLE = "TOUR_PYSERINI_RERANKER_KEY"
REQUESTS = 8

# Options of re-rankers that run on this machine. Device, dtype and trust are those of a search's encoder, too.
_LOCAL_OPTIONS = ("backend", "precision", "prompt")

# A relevant and an irrelevant passage: raw scores of the two are not both between -1 and 1, as a rule.
_PROBE = ("who wrote hamlet", ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven."))


def load_remote(spec: str, options: Options) -> RemoteReranker:
    """Ask a service which model it runs, and make a re-ranker of it.

    Args:
        spec: its address, such as `http://host:8080/rerank`; `parse_address` describes the options in it.
        options: `batch_size` is the most passages of a request, `threads` the number of requests at a time.

    Raises:
        TourError: if the service is away, is none, or does not tell what its scores are or which model gives them.
    """
    address = parse_address(spec, dialects=tuple(DIALECTS))
    given = [name for name in _LOCAL_OPTIONS if getattr(options, name) != getattr(Options, name)]
    if given:
        raise TourError(f"the service {address} decides itself about {' and '.join(given)}; leave it out.")
    requests = options.threads or REQUESTS
    service = JsonService(
        address.base,
        key=_key(address),
        key_variable=KEY_VARIABLE,
        patience=address.patience,
        connections=requests,
    )
    try:
        endpoint = run_in_background(find_endpoint(service, address))
    except ServiceAwayError as error:
        raise TourError(
            f"{error} Labels that are kept cannot be used without it: it tells which model they belong to."
        ) from error
    _check(address, endpoint.served, options)
    raw = run_in_background(_gives_raw_scores(endpoint))
    if not raw:
        log.warning(
            "%s gives probabilities, not raw scores: labels are their logits, from -16.1 to 16.1, with fewer digits",
            address,
        )
    return RemoteReranker(endpoint, raw=raw, batch_size=options.batch_size, requests=requests)


def _check(address: ServiceAddress, served: ServedModel, options: Options) -> None:
    if address.model not in (None, served.model):
        raise TourError(f"the service {address} runs {served.model}, not {address.model}; correct the address.")
    is_folder = served.model.startswith(("/", ".", "~"))
    if is_folder and not (served.revision or address.revision):
        raise TourError(
            f"the service {address} tells only a folder of its own, {served.model}, as its model; add the option "
            "revision=WORD to its address, with a word that identifies the model, so that its labels can be kept."
        )
    if options.max_length not in (Options.max_length, served.max_length):
        cut = f"at {served.max_length} tokens" if served.max_length else "where it likes"
        raise TourError(f"the service {address} cuts long pairs itself, {cut}; leave the maximum length out.")


async def _gives_raw_scores(endpoint: RerankEndpoint) -> bool:
    """Whether the scores are raw logits. Where requests have a switch for it, two of them show whether it works.

    Scores that the switch does not change and that are small can be probabilities, or cosines of an encoder (vLLM).
    """
    said = endpoint.address.scores
    if said is not None or not endpoint.dialect.HAS_RAW_SCORES:
        return said == "raw"
    raw, other = [await endpoint.scores(*_PROBE, raw=wanted) for wanted in (True, False)]
    if np.array_equal(raw, other) and (np.abs(raw) <= 1).all():
        raise TourError(
            f"the service {endpoint.address} gives the scores {' and '.join(map(str, raw))} whether raw ones are asked "
            "for or not; say what they are by the option scores=raw or scores=probability in its address."
        )
    return True


def _key(address: ServiceAddress) -> str | None:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise TourError(f"the key in {KEY_VARIABLE} has characters that cannot be sent; set it again.")
    parts = urlsplit(address.base)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        log.warning("the key in %s is sent to %s without encryption", KEY_VARIABLE, parts.netloc)
    return key
