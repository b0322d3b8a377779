"""What a method is: a function that optimises one query, and asks for what it needs.

A method is a generator. It yields requests and gets their answers; it knows no batch, no file and no model:

    def method(query, settings):
        q = query.vector
        hits = yield Search(q, query.hits)              # a Ranking
        labels = yield Label(hits.ids[:10])             # [10] re-ranker scores
        vectors = yield Vectors(hits.ids[:10])          # [10, d]
        ...
        return Outcome(q, hits, StopReason.ROUNDS)

`core/scheduler.py` advances many of them together.
"""

import dataclasses
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from tour_pyserini.core.arrays import Floats, Ids, Ranking
from tour_pyserini.core.fusion import Fusion
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import TourError


class Search(NamedTuple):
    """Find `hits` documents for the vector [d]; the answer is a `Ranking`, whose scores are similarities.

    Where there are further signals, they take part: the similarity of a document is q c + e (see `core/fusion.py`).
    """

    vector: Floats
    hits: int


class Label(NamedTuple):
    """Let the re-ranker score documents, the most important first; the answer is [m] raw scores.

    A score is NaN where there was no time for it. Then the query is late, and asks for no more labels.
    """

    ids: Ids


class Vectors(NamedTuple):
    """Fetch the vectors of documents; the answer is [m, d]."""

    ids: Ids


class Neighbours(NamedTuple):
    """Find the `hits` documents nearest to each document; the answer is a list of m arrays, nearest first.

    A document is not its own neighbour. Further signals take no part.
    """

    ids: Ids
    hits: int


Request = Search | Label | Vectors | Neighbours


class StopReason(StrEnum):
    """Why a query stopped."""

    AGREEMENT = "the first candidate agrees with the labels"
    LITTLE_CHANGE = "the last labels brought at most one passage into the first ten"
    BUDGET = "the label budget is spent"
    ROUNDS = "all rounds were run"
    NO_CANDIDATES = "there are no more candidates"
    DEADLINE = "the deadline came"


class Outcome(NamedTuple):
    """What a method leaves.

    Attributes:
        vector: [d] the optimised query.
        ranking: the final list; it may be longer than was asked for.
        stop: why it ended.
    """

    vector: Floats
    ranking: Ranking
    stop: StopReason


@dataclass(frozen=True)
class Query:
    """What a method knows of its query.

    Attributes:
        vector: [d] q_0, the encoder's vector; float32 or float64, and the optimised one is of the same kind.
        hits: how many documents the final list should have.
        fusion: what further first-stage signals say; see `offsets`, and `Fusion` for more.
        excluded: a document that must not be found, or -1.
        within: the documents that may be found, as the index knows them; None: all.
        name: its id, for messages.
        text: what the re-ranker reads of it.
    """

    vector: Floats
    hits: int
    fusion: Fusion = dataclasses.field(default_factory=Fusion)
    excluded: int = -1
    within: Any = None
    name: str = "query"
    text: str = ""

    def offsets(self, ids: Ids) -> Floats:
        """[m] what further signals add to the similarities of documents; known after the first search."""
        return self.fusion.offsets(ids)

    @property
    def spread(self) -> float:
        """The standard deviation sd_0 of the first candidates' similarities to q_0; known after the first search."""
        return self.fusion.spread


Run = Generator[Request, Any, Outcome]
"""A method at work on one query."""


@dataclass(frozen=True)
class Method:
    """A named method.

    Attributes:
        name: as in `--method NAME`.
        run: the function; see the head of this file.
        settings: the class of its settings.
        version: raised by one whenever the same settings and labels begin to give another result. Experiments then
            make their runs again.
    """

    name: str
    run: Callable[[Query, Any], Run]
    settings: type[MethodSettings]
    version: int = 1


def method(settings: type[MethodSettings], *, version: int = 1) -> Callable[[Any], Method]:
    """Make a `Method` of a function; its name is the function's, with hyphens.

    Example:
        @method(HalfwaySettings)
        def halfway(query, settings): ...

        TourConfig(halfway, share=0.5)          # as it is
        register_method(halfway)                # or by name: TourConfig("halfway"), --method halfway

    Raises:
        TourError: if the settings could not be read, printed or given on a command line.
    """

    def decorate(function: Callable[[Query, Any], Run]) -> Method:
        name = function.__name__.strip("_").replace("_", "-")
        _check_settings(name, settings)
        return Method(name, function, settings, version)

    return decorate


_METHODS: dict[str, Method] = {}
METHODS: Mapping[str, Method] = MappingProxyType(_METHODS)
"""The methods by name: those of this package, and what plugins registered."""


def register_method(added: Method) -> None:
    """Make a method available by name, as `TourConfig("name")` and `--method name`.

    Raises:
        TourError: if it is not a `Method`, or the name is in use.
    """
    if not isinstance(added, Method):
        raise TourError(f"{added!r} is not a method; put @method(Settings) above the function.")
    if METHODS.get(added.name, added) != added:
        raise TourError(f"there is a method {added.name!r} already; choose another name.")
    _METHODS[added.name] = added


def _check_settings(name: str, settings: type[MethodSettings]) -> None:
    if not issubclass(settings, MethodSettings) or "__dataclass_fields__" not in vars(settings):
        raise TourError(
            f"the settings of the method {name!r} are no dataclass: write @dataclass(frozen=True, kw_only=True) before "
            "a subclass of MethodSettings."
        )
    for item in dataclasses.fields(settings):
        if "help" not in item.metadata or type(item.default) not in (bool, int, float, str):
            raise TourError(
                f"the setting {item.name!r} of the method {name!r} must be made with `setting`, from a default that is "
                "a number, a word, or true or false."
            )
    settings()
