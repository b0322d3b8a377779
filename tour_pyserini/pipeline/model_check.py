"""Checking a model: whether it is an encoder or a re-ranker, how it would be run, and what it gives for two texts."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.encoders.encoder_description import describe_encoder
from tour_pyserini.encoders.encoder_loading import load_document_encoder, load_query_encoder
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.pipeline.request import Request, option, same_option
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import score_pairs

QUERY = "who wrote hamlet"
PASSAGES = ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven.")

_GROUP = "the model that is checked"
_same = functools.partial(same_option, SearchRequest, group=_GROUP)


@dataclass(frozen=True, kw_only=True)
class ModelRequest(Request):
    """Say how a model would be run; the fields are flags of `python -m tour_pyserini.doctor`.

    Attributes:
        model: what `--encoder` or `--reranker` takes: a name, a folder, `default`, or the address of a service.
    """

    model: str | None = option(
        None,
        "check this model instead: a name, a folder, `default` or the address of a service",
        group=_GROUP,
        metavar="NAME",
    )
    device: str = _same("device", help="where it is run: cpu, cuda:0, ...")
    dtype: str = _same("dtype", help="numbers it computes with")
    trust_remote_code: bool = _same("trust_remote_code", help="run Python code that comes with it")
    backend: str = _same("backend", help="what runs it")
    precision: str | None = _same(
        "precision", help="precision of a re-ranker, or of an encoder of documents (default: the model's own)"
    )
    pooling: str | None = _same("pooling", help="pooling of an encoder")
    l2_norm: bool | None = _same("l2_norm", help="whether an encoder's vectors get unit length")
    reranker_prompt: str | None = _same("reranker_prompt")


class Example(NamedTuple):
    """What a model gives for two texts: a `score`, or a `cosine` of their vectors."""

    measure: str
    value: float
    query: str
    passage: str


class ModelUse(NamedTuple):
    """What a model is in one of the two roles.

    Attributes:
        role: `encoder` or `re-ranker`.
        facts: how it is run, by what they are about; none if it cannot be run.
        examples: what it gives for a relevant and for an irrelevant passage.
        problem: why it cannot be run in this role; empty if it can.
    """

    role: str
    facts: Mapping[str, Any]
    examples: Sequence[Example] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the model can be run in this role."""
        return not self.problem


class ModelReport(NamedTuple):
    """What a model can be used as.

    Attributes:
        model: its name.
        uses: one for each role that was tried.
    """

    model: str
    uses: Sequence[ModelUse]

    @property
    def ok(self) -> bool:
        """Whether the model can be run in one of the roles."""
        return any(use.ok for use in self.uses)

    def as_text(self) -> str:
        """A line for each role, and below it a line for each fact and example."""
        lines = []
        for use in self.uses:
            lines.append(f"{'ok' if use.ok else 'no'}  {use.role}: {use.problem or self.model}")
            rows = [(name, _shown(value)) for name, value in use.facts.items()]
            rows += [
                ("gives", f"{row.measure} {row.value:.4f}: {row.query!r}, {row.passage!r}") for row in use.examples
            ]
            width = max((len(name) for name, _ in rows), default=0)
            lines += [f"    {name:{width}}  {text}" for name, text in rows]
        flags = [flag for role, flag in (("encoder", "--encoder"), ("re-ranker", "--reranker")) if self._can_be(role)]
        lines.append(f"It can be used as {' and '.join(flags)}." if flags else "It cannot be run: see above.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        uses = [
            {**use._asdict(), "ok": use.ok, "examples": [example._asdict() for example in use.examples]}
            for use in self.uses
        ]
        return {"ok": self.ok, "model": self.model, "uses": uses}

    def _can_be(self, role: str) -> bool:
        return any(use.ok for use in self.uses if use.role == role)


def check_model(request: ModelRequest) -> ModelReport:
    """Load a model as a search would, and score two pairs or encode two texts with it.

    A model that is a re-ranker is not tried as an encoder: its vectors would mean nothing. `default` names one of each.

    Example:
        >>> check_model(ModelRequest(model="default")).ok  # doctest: +SKIP
        True
    """
    if not request.model:
        raise TourError("--model is missing: give a name, a folder or the address of a service.")
    uses = [_tried("re-ranker", _check_reranker, request)]
    if request.model == DEFAULT or not (uses[0].ok or is_service_address(request.model)):
        uses.insert(0, _tried("encoder", _check_encoder, request))
    return ModelReport(request.model, uses)


def _tried(role: str, check: Callable[[ModelRequest], ModelUse], request: ModelRequest) -> ModelUse:
    try:
        return check(request)
    except TourError as error:
        return ModelUse(role, {}, problem=str(error))
    except Exception as error:  # models and their libraries raise anything; the other role must still be tried
        return ModelUse(role, {}, problem=f"{type(error).__name__}: {first_line(error)}.")


def _check_reranker(request: ModelRequest) -> ModelUse:
    reranker: Any = load_reranker(
        request.model,
        device=request.device,
        backend=request.backend,
        precision=request.precision,
        dtype=request.dtype,
        prompt=request.reranker_prompt,
        trust_remote_code=request.trust_remote_code,
    )
    scores = score_pairs(reranker, [(QUERY, passage) for passage in PASSAGES])
    description = getattr(reranker, "description", None)
    facts = {name.replace("_", " "): value for name, value in description._asdict().items()} if description else {}
    examples = [Example("score", float(score), QUERY, text) for text, score in zip(PASSAGES, scores, strict=True)]
    return ModelUse("re-ranker", facts, examples)


def _check_encoder(request: ModelRequest) -> ModelUse:
    assert request.model is not None
    code = {"trust_remote_code": request.trust_remote_code}
    same = ("device", "dtype", "backend", "pooling", "l2_norm")
    options: dict[str, Any] = {**code, **{name: getattr(request, name) for name in same}}
    queries = load_query_encoder(request.model, **options)
    documents = load_document_encoder(request.model, precision=request.precision or "fp32", **options)
    query = np.asarray(queries.encode(QUERY), dtype=np.float64)
    passages = np.asarray(documents.encode(texts=list(PASSAGES)), dtype=np.float64)
    norms = np.linalg.norm(passages, axis=1)
    facts = {
        **describe_encoder(request.model, queries, documents, **code),
        "dimensions": len(query),
        "norms": f"{np.linalg.norm(query):.4f} of the query, {norms[0]:.4f} and {norms[1]:.4f} of the passages",
    }
    cosines = passages @ query / norms / np.linalg.norm(query)
    examples = [Example("cosine", float(cosine), QUERY, text) for text, cosine in zip(PASSAGES, cosines, strict=True)]
    return ModelUse("encoder", facts, examples)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value))
    text = str(value)
    return repr(text) if text != text.strip() or "\n" in text else text  # every blank of a prompt counts
