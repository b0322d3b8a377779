"""What goes over the wire: requests, answers and events of the service. Field names are Pyserini's where it has them.

A stream (`GET /search/stream`) is a sequence of events: `settings` once, `round` for each list, and at the end `answer`
or `error`. The data of each is one of the models below, as JSON.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator

from tour_pyserini.core.config import PRESETS
from tour_pyserini.core.method import METHODS

_Point = tuple[float, float]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the query is empty; give it a text")
    return text


QueryText = Annotated[
    str, Field(min_length=1, max_length=2_000, json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)
]
"""The text of a query."""
_Passage = Annotated[  # with a limit, pydantic refuses halves of characters; that of the whole request is the same
    str, Field(max_length=1_000_000, json_schema_extra=lambda schema: schema.pop("maxLength"))
]
_EXAMPLE: dict[str, Any] = {"query": "which railway climbs to the summit", "hits": 3}
_JUDGED: dict[str, Any] = {"query": _EXAMPLE["query"], "docid": "a025"}
_MethodName = Annotated[str, Field(json_schema_extra=lambda schema: schema.update(enum=list(METHODS)))]
_PresetName = Annotated[str, Field(json_schema_extra={"enum": list(PRESETS)})]


def _is_none(value: object) -> bool:
    return value is None


class _Message(BaseModel):
    """Base of all messages: a field that is not known is refused, NaN and infinity too."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class _SearchOptions(_Message):
    """How a request wants to search."""

    hits: int = Field(default=10, ge=1, description="length of the list")
    qid: str = Field(default="", max_length=200, description="the query's id, which the answer repeats")
    method: _MethodName | None = Field(default=None, description="the update rule; the service's own if not given")
    preset: _PresetName | None = Field(default=None, description="settings to start from, by name")
    filter: dict[str, Any] | list[str] | str | None = Field(
        default=None, description="which documents may be found: a condition on fields, or docids, also as JSON in text"
    )
    budget: int | None = Field(default=None, ge=1, description="most labels of the query: the setting `budget`")
    deadline_ms: float | None = Field(
        default=None, gt=0, le=600_000, description="milliseconds from the arrival of the request to its answer"
    )
    min_relevance: float | None = Field(
        default=None, ge=0, le=1, description="leave out hits whose probability of relevance is lower; needs `tune`"
    )


class SearchBody(_SearchOptions):
    """What `POST /search` takes."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{**_EXAMPLE, "deadline_ms": 300}]})

    query: QueryText = Field(description="the text of the query")
    hits: int = Field(
        default=10, ge=1, validation_alias=AliasChoices("hits", "k"), description="length of the list; also `k`"
    )
    settings: dict[str, bool | int | float | str] = Field(default={}, description="settings of the method, by name")
    rounds: bool = Field(default=False, description="whether the answer holds every round")


class StreamQuery(_SearchOptions):
    """What `GET /search/stream` takes."""

    query: QueryText = Field(description="the text of the query")
    setting: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field(
        default=[], description="NAME=VALUE of a setting; may be repeated"
    )

    def body(self) -> SearchBody:
        """The same as `POST /search` takes it."""
        settings: dict[str, Any] = dict(word.split("=", 1) for word in self.setting)
        return SearchBody(**self.model_dump(exclude={"setting"}), settings=settings)


class Candidate(_Message):
    """One line of a list.

    `label`, `similarity` and what follows are there for a method with labels, and where vectors are known.
    """

    docid: str
    score: float
    rank: int = Field(description="position in the list, from 1")
    title: str = Field(description="the title; empty where the passage has none")
    words: str = Field(description="the first words of the text, without the title")
    text: str | None = Field(default=None, description="title and text; in answers, not in rounds")
    label: float | None = Field(default=None, description="the re-ranker's score; null where it was not bought")
    relevance: float | None = Field(
        default=None,
        exclude_if=_is_none,
        description="probability that it is relevant; not there without the settings that `tune` wrote",
    )
    judged: int | None = Field(default=None, description="what people judged here; null where nobody did")
    bought: bool = Field(default=False, description="whether the label was bought in this round")
    rank_before: int | None = Field(default=None, description="its rank in the list before; null where it is new")
    similarity: float | None = Field(default=None, description="inner product with the query's present vector")
    similarity_before: float | None = Field(default=None, description="the same with the vector of the round before")


class Costs(_Message):
    """What a search has cost so far."""

    labels: int = Field(description="labels bought: (query, passage) pairs")
    scored: int = Field(description="those that the re-ranker computed; the others were in the score cache")
    updates: int = Field(description="updates of the query vector")
    milliseconds: float = Field(description="since the request arrived")
    waited_ms: float = Field(description="of these, before the search began")
    label_ms: float = Field(description="of these, while labels were bought")


class Map(_Message):
    """The query among its candidates, in two dimensions; each round has all points anew, because axes turn.

    The first axis points from the first query vector to the present one; the second is the direction in which the
    candidates differ most otherwise. Distances on both axes can be compared.
    """

    queries: list[_Point] = Field(description="the query's vector at each t = 0, 1, ..., the present one last")
    candidates: dict[str, _Point] = Field(description="the passages of the list and all that were labelled, by docid")


class Round(_Message):
    """One list of a search: the first retrieval, or what a round made of it. The data of the event `round`."""

    number: int = Field(description="0 is the first retrieval, without a label; then 1, 2, ...")
    t: int = Field(description="updates of the query vector before this list")
    candidates: list[Candidate] = Field(description="the list so far, best first")
    new: list[str] = Field(description="docids that were not in the list before")
    gone: list[str] = Field(description="docids of the list before that are not in this one")
    cosine: float | None = Field(description="of the query vector and the first one; null for a vector of length 0")
    stop: str | None = Field(description="why the search ends with this list; null when it goes on")
    map: Map | None = Field(default=None, description="null where the vectors of the passages are not known")
    costs: Costs


class Settings(_Message):
    """How a search is made. The data of the event `settings`."""

    method: str
    settings: dict[str, Any] = Field(description="all settings of the method, by name")
    most_labels: int = Field(description="labels that the query may have in all")
    hits: int
    deadline_ms: float | None
    index: str = Field(description="name of the index")
    documents: int = Field(description="how many documents the index has")
    reranker: str | None = Field(description="name of the re-ranker; null for a method without labels")


class Answer(_Message):
    """What `POST /search` gives. The data of the event `answer`."""

    query: str
    qid: str
    candidates: list[Candidate] = Field(description="the list, best first")
    stop: str = Field(description="why the search ended, in words, such as `the deadline came`")
    nothing: str | None = Field(
        default=None, exclude_if=_is_none, description="why the list is empty, where all hits were left out"
    )
    settings: Settings
    costs: Costs
    rounds: list[Round] | None = Field(default=None, description="every list on the way, if asked for")


class Problem(_Message):
    """Why there is no answer, in one sentence: the data of the event `error`, and of every status from 400 on."""

    detail: str


class Choice(_Message):
    """A method or a preset that the page offers: what it is chosen by, its name, its group, and a line about it."""

    value: str
    name: str
    group: str
    about: str


class About(_Message):
    """What `GET /about` gives: what a search can choose from, and what there is to search."""

    method: str = Field(description="the method of a search that names none")
    choices: list[Choice] = Field(description="the methods and the preset `mixed`, by group, with a line about each")
    documents: int = Field(description="how many documents the index has")
    judgements: bool = Field(description="whether judgements are kept")
    most_hits: int = Field(description="longest list of a search")
    most_labels: int = Field(description="most labels of a search")
    examples: list[str] = Field(description="queries to begin with: some of the topics, or titles of documents")


class Judgement(_Message):
    """What `POST /judgements` takes, and gives back when it is kept; the last one of a query and a document counts."""

    model_config = ConfigDict(strict=True, json_schema_extra={"examples": [{**_JUDGED, "relevance": 1}]})

    query: QueryText
    docid: str = Field(min_length=1, max_length=1_000, pattern=r"^\S+$")
    relevance: int = Field(ge=0, le=3, description="0: not relevant; from 1 on: relevant, in grades")


class Document(_Message):
    """What `GET /documents/{docid}` gives."""

    docid: str
    title: str
    text: str
    contents: str = Field(description="title and text, as models read them; Pyserini's name")


# Re-ranking


class DocumentText(BaseModel):
    """A document that was given as an object."""

    text: _Passage


class RerankBody(BaseModel):
    """What `POST /rerank` takes: text-embeddings-inference's fields, or those of Cohere, Jina and vLLM."""

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        json_schema_extra={
            "examples": [{"query": "summit railway", "texts": ["a railway to the summit", "bread"]}],
            "oneOf": [{"required": ["texts"]}, {"required": ["documents"]}],
        },
    )

    query: QueryText
    texts: list[_Passage] = Field(default_factory=list, min_length=1)
    documents: list[_Passage | DocumentText] = Field(default_factory=list, min_length=1)
    raw_scores: bool = False
    return_text: bool = False
    return_documents: bool = False
    top_n: int | None = Field(default=None, ge=1)
    budget: int | None = Field(default=None, ge=1, description="most labels; the method chooses which")
    scores: list[float] | None = Field(default=None, description="what the first stage says of each passage")

    @model_validator(mode="after")
    def _check_passages(self) -> Self:
        if bool(self.texts) == bool(self.documents):
            raise ValueError("give either `texts` or `documents`: the passages to score")
        return self

    @property
    def passages(self) -> list[str]:
        """The passages to score."""
        return self.texts or [one if isinstance(one, str) else one.text for one in self.documents]


# Pyserini 1's REST server


class PyseriniQuery(BaseModel):
    """The query where Pyserini's clients send an object."""

    query_txt: QueryText


class PyseriniSearch(BaseModel):
    """What Pyserini's clients send; what is chosen when the service is started can only be null."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [_EXAMPLE]})

    query: QueryText | PyseriniQuery
    hits: int = Field(default=10, ge=1)
    qid: str = Field(default="", max_length=200)
    ef_search: None = None
    encoder: None = None
    query_generator: None = None
    instruction_config: None = None
