"""The methods by name. A new one is a new file and a line here, or a call of `register_method`."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.methods.anchored_losses import AnchoredHard, AnchoredSoft
from tour_pyserini.core.methods.baselines import Dense, Rerank
from tour_pyserini.core.methods.feedback import Average, AverageRerank, Rocchio, RocchioRerank
from tour_pyserini.core.methods.ladr import Ladr
from tour_pyserini.core.methods.method import Method
from tour_pyserini.core.methods.ore import Ore
from tour_pyserini.core.methods.paper import Hard, Interpolation, Soft, Top
from tour_pyserini.core.methods.peers import Graph, Refit, Regression
from tour_pyserini.core.methods.qdrant_feedback import QdrantFeedback
from tour_pyserini.core.methods.rgs import Rgs
from tour_pyserini.core.settings import Settings, SharedSettings
from tour_pyserini.errors import TourError

__all__ = ["METHODS", "Method", "method_named", "register_method"]

_METHODS: dict[str, type[Method]] = {
    "anchored": Anchored,
    "anchored-soft": AnchoredSoft,
    "anchored-hard": AnchoredHard,
    "hard": Hard,
    "soft": Soft,
    "top": Top,
    "interpolation": Interpolation,
    "rocchio": Rocchio,
    "average": Average,
    "rerank": Rerank,
    "dense": Dense,
    "rocchio-rerank": RocchioRerank,
    "average-rerank": AverageRerank,
    "refit": Refit,
    "regression": Regression,
    "graph": Graph,
    "ladr": Ladr,
    "rgs": Rgs,
    "ore": Ore,
    "qdrant-feedback": QdrantFeedback,
}
METHODS: Mapping[str, type[Method]] = MappingProxyType(_METHODS)


def method_named(name: str) -> type[Method]:
    """The method of that name.

    Raises:
        TourError: if there is none.
    """
    if name not in METHODS:
        raise TourError(f"method {name!r} is unknown: choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def register_method(name: str, method: type[Method]) -> None:
    """Make a method of your own available as `TourConfig(method=name)` and `--method name`.

    Example:
        class Halfway(Method):
            \"\"\"Moves the query halfway to the candidate with the highest label.\"\"\"

            def target(self, candidates): ...
            def update(self, rows, query, candidates, target, t): ...

        register_method("halfway", Halfway)

    Raises:
        TourError: if the name is in use, or the class or its settings are not complete.
    """
    if not isinstance(name, str) or name.split() != [name] or "=" in name or "," in name:
        raise TourError(f"{name!r} cannot name a method: use letters, digits and hyphens.")
    if name in METHODS:
        raise TourError(f"there is a method {name!r} already; choose another name.")
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TourError(f"{method!r} is not a subclass of Method; see tour_pyserini.core.methods.method.")
    if method.__abstractmethods__:
        raise TourError(f"the method {name!r} has no {' and no '.join(sorted(method.__abstractmethods__))}; add it.")
    _check_settings(name, method.Settings)
    shared = [item.name for item in dataclasses.fields(SharedSettings)]
    for default in method.shared_defaults:
        if default not in shared:
            raise TourError(f"shared_defaults of the method {name!r} has {default!r}: choose from {', '.join(shared)}.")
    try:
        method.Settings()
        SharedSettings(**method.shared_defaults)
    except TourError as error:
        raise TourError(f"the method {name!r} has a wrong default: {error}") from error
    _METHODS[name] = method


def _check_settings(name: str, settings: type[Settings]) -> None:
    """Refuse settings that could not be read, printed or given on a command line."""
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise TourError(
            f"the Settings of the method {name!r} are not a subclass of tour_pyserini.core.settings.Settings."
        )
    if any(isinstance(value, dataclasses.Field) for value in vars(settings).values()):
        raise TourError(
            f"the Settings of the method {name!r} are not a dataclass: add @dataclass(frozen=True, kw_only=True)."
        )
    reserved = {"method", "preset", "config", *(item.name for item in dataclasses.fields(SharedSettings))}
    for item in dataclasses.fields(settings):
        if item.name in reserved:
            raise TourError(f"the method {name!r} cannot have a setting {item.name!r}: all methods use the name.")
        if "help" not in item.metadata or type(item.default) not in (bool, int, float, str):
            raise TourError(
                f"the setting {item.name!r} of the method {name!r} must be made with "
                "tour_pyserini.core.settings.setting, from a default that is a number, a word, or true or false."
            )
