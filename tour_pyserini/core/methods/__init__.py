"""The methods by name. A new one is a new file and a line here, or a call of `register_method`."""

from collections.abc import Mapping
from types import MappingProxyType

from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.methods.anchored_losses import AnchoredHard, AnchoredSoft
from tour_pyserini.core.methods.baselines import Dense, Rerank
from tour_pyserini.core.methods.feedback import Average, AverageRerank, Rocchio, RocchioRerank
from tour_pyserini.core.methods.method import Method
from tour_pyserini.core.methods.paper import Hard, Interpolation, Soft, Top
from tour_pyserini.core.methods.peers import Graph, Refit, Regression
from tour_pyserini.core.settings import Settings
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
    """
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise TourError(f"{method!r} is not a subclass of Method; see tour_pyserini.core.methods.method.")
    if name.split() != [name] or "=" in name or "," in name:
        raise TourError(f"{name!r} cannot name a method: use letters, digits and hyphens.")
    if name in METHODS:
        raise TourError(f"there is a method {name!r} already; choose another name.")
    if not issubclass(method.Settings, Settings):
        raise TourError(
            f"the Settings of the method {name!r} are not a subclass of tour_pyserini.core.settings.Settings."
        )
    _METHODS[name] = method
