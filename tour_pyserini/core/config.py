"""Everything that decides what TouR computes, as one immutable value."""

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from tour_pyserini.core import calibration
from tour_pyserini.core.candidates import Floats
from tour_pyserini.core.methods import METHODS, Method, method_named
from tour_pyserini.core.settings import Settings, SharedSettings, as_text
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

DEFAULT_METHOD = "anchored"

LIMIT = 2
"""Most labels of a query where a run has a mean budget and no budget of a query, in multiples of the mean."""

_SHARED = tuple(item.name for item in dataclasses.fields(SharedSettings))


@dataclass(frozen=True, init=False, repr=False)
class TourConfig:
    """The method and all settings of one run.

    Settings that every method shares and settings of the method itself are given and read by name. A setting that the
    method does not have is refused. A config prints as text that parses back, and saves as a TOML file that loads back:

        >>> config = TourConfig(method="soft", depth=20, learning_rate=0.1)
        >>> config.depth, config.learning_rate
        (20, 0.1)
        >>> TourConfig.parse(str(config)) == config
        True
        >>> TourConfig.parse("preset=paper-passages-dpr iterations=2").learning_rate
        0.2

    Attributes:
        method: the method's name.
        shared: the settings that every method has.
        own: the settings of the method itself.
    """

    method: str
    shared: SharedSettings
    own: Settings

    def __init__(self, method: str = DEFAULT_METHOD, **settings: Any) -> None:
        """Choose a method and some of its settings; the others have the method's defaults."""
        chosen = method_named(str(method))
        own = [item.name for item in dataclasses.fields(chosen.Settings)]
        for name in settings:
            if name not in _SHARED and name not in own:
                raise TourError(_refusal(str(method), name, [*_SHARED, *own]))
        shared = {**chosen.shared_defaults, **{name: settings[name] for name in _SHARED if name in settings}}
        object.__setattr__(self, "method", str(method))
        object.__setattr__(self, "shared", SharedSettings(**shared))
        object.__setattr__(self, "own", chosen.Settings(**{name: settings[name] for name in own if name in settings}))
        if self.shares_labels and self.shared.mean_budget < min(self.shared.depth, self.query_budget):
            raise TourError(
                f"mean_budget {self.shared.mean_budget} does not pay for the first {self.shared.depth} labels of each "
                "query; raise it, or lower depth."
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("shared", "own", "method"):  # an object being copied or unpickled
            raise AttributeError(name)
        for part in (self.shared, self.own):
            if name in {item.name for item in dataclasses.fields(part)}:
                return getattr(part, name)
        raise AttributeError(f"the method {self.method} has no setting {name!r}")

    @property
    def method_class(self) -> type[Method]:
        """The method itself."""
        return method_named(self.method)

    @property
    def calibrates(self) -> bool:
        """Whether the scale of similarities is found on the first candidates."""
        calibrate = self.shared.calibrate
        return calibrate == "always" or (calibrate == "method" and self.method_class.keeps_labels)

    @property
    def algorithm(self) -> dict[str, int]:
        """The versions of what computes the result: of the method and, where it is used, of the scale.

        Example:
            >>> TourConfig("hard").algorithm, TourConfig("anchored").algorithm
            ({'method': 1}, {'method': 1, 'scale': 2})
        """
        return {"method": self.method_class.version} | ({"scale": calibration.VERSION} if self.calibrates else {})

    @property
    def rounds(self) -> int:
        """Most updates: the iterations or, for a method that keeps its labels, as many as the budget allows."""
        if not self.method_class.updates_query:
            return 0
        if self.query_budget and self.method_class.keeps_labels:
            return -(-self.query_budget // self.shared.depth)
        return self.shared.iterations

    @property
    def most_labels(self) -> int:
        """Labels that a query may have in all."""
        shared = self.shared
        return self.query_budget or shared.depth * (shared.iterations + (not self.method_class.keeps_labels))

    @property
    def shares_labels(self) -> bool:
        """Whether the queries of a run share their labels: `mean_budget`, of a method that can estimate gains."""
        return self.shared.mean_budget > 0 and self.method_class.estimates_gain

    @property
    def query_budget(self) -> int:
        """Most labels of a query, where a budget says so; else 0."""
        return self.shared.budget or (LIMIT * self.shared.mean_budget if self.shares_labels else 0)

    @property
    def least_hits(self) -> int:
        """Hits that every search must return: a method that keeps its labels looks for candidates beyond those."""
        labelled = self.most_labels if self.method_class.keeps_labels else self.shared.depth
        return max(labelled, self.method_class.least_hits(self.own))

    def new_method(self, queries: Floats) -> Method:
        """The method, ready for the encoder's vectors [n, d]."""
        return self.method_class(self.own, queries, rounds=self.rounds)

    def replace(self, **changes: Any) -> "TourConfig":
        """The same settings with some changed.

        With another method, settings that differ from the old method's defaults are kept where the new one has them;
        the others take the new method's defaults.
        """
        method = str(changes.pop("method", self.method))
        if method == self.method:
            return TourConfig(method, **{**self.settings(), **changes})
        names = {*_SHARED, *(item.name for item in dataclasses.fields(method_named(method).Settings))}
        default = TourConfig(self.method).settings()
        kept = {name: value for name, value in self.settings().items() if name in names and value != default[name]}
        return TourConfig(method, **{**kept, **changes})

    def settings(self) -> dict[str, Any]:
        """All settings by name, the shared ones first."""
        return {**dataclasses.asdict(self.shared), **dataclasses.asdict(self.own)}

    @classmethod
    def preset(cls, name: str) -> "TourConfig":
        """The settings known by `name`: a preset, or a method's name for that method's defaults."""
        if name not in PRESETS:
            raise TourError(f"preset {name!r} is unknown: choose one of {', '.join(PRESETS)}.")
        return PRESETS[name]

    @classmethod
    def parse(cls, text: str) -> "TourConfig":
        """Read `name=value` pairs, separated by blanks or commas, over a `preset=NAME` or the default."""
        values: dict[str, Any] = {}
        for word in filter(None, re.split(r"[\s,]+", text)):
            name, equals, value = word.partition("=")
            if not equals:
                raise TourError(f"{word!r} is not of the form name=value.")
            if name in values:
                raise TourError(f"{name} is given twice.")
            values[name] = value
        return cls._from_values(values)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "TourConfig":
        """Read a TOML file of settings, over its `preset` if it names one."""
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
            return cls._from_values(values)
        except OSError as error:
            raise TourError(f"cannot read the settings file {path}: {error.strerror}.") from error
        except TourError as error:
            raise TourError(f"{path}: {error}") from error
        except ValueError as error:  # not TOML, not UTF-8, or a number with more digits than Python converts
            reason = str(error).partition(";")[0]
            raise TourError(f"{path} is not a TOML file of settings: {reason}.") from error
        except RecursionError:
            raise TourError(f"{path} is not a TOML file of settings: it is nested too deeply.") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write a TOML file that `load` reads."""
        with atomic_write(path) as file:
            for name, value in {"method": self.method, **self.settings()}.items():
                file.write(f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {as_text(value)}\n")

    def __str__(self) -> str:
        return " ".join(
            f"{name}={as_text(value)}" for name, value in {"method": self.method, **self.settings()}.items()
        )

    def __repr__(self) -> str:
        return f"TourConfig.parse({str(self)!r})"

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> "TourConfig":
        values = dict(values)
        preset = values.pop("preset", None)
        method = str(values.get("method", DEFAULT_METHOD if preset is None else cls.preset(str(preset)).method))
        values = {**_without_settings_of_others(method, values), "method": method}
        return cls(**values) if preset is None else cls.preset(str(preset)).replace(**values)


def settings_by_name() -> dict[str, tuple[dataclasses.Field[Any], list[str]]]:
    """Every setting of every method: its field, and the methods that have it (none listed for a shared one)."""
    found: dict[str, tuple[dataclasses.Field[Any], list[str]]] = {
        item.name: (item, []) for item in dataclasses.fields(SharedSettings)
    }
    for name, method in METHODS.items():
        for item in dataclasses.fields(method.Settings):
            found.setdefault(item.name, (item, []))[1].append(name)
    return found


def _refusal(method: str, name: str, known: list[str]) -> str:
    others = settings_by_name().get(name, (None, []))[1]
    if others:
        return f"the method {method} has no setting {name!r}, which is for {', '.join(others)}."
    return f"{name!r} is not a setting of the method {method}: its settings are {', '.join(known)}."


def _without_settings_of_others(method: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values without what files of version 0.1 held for other methods.

    Those files list the settings of all methods, whatever the method. Such a file is recognised by holding them all.
    """
    every = settings_by_name()
    if not values.keys() >= _VERSION_0_1:
        return values
    own = {name for name, (_, methods) in every.items() if not methods or method in methods}
    return {name: value for name, value in values.items() if name in own or name not in every}


# fmt: off
_VERSION_0_1 = {
    "method", "depth", "iterations", "budget", "anchor", "least_gain", "learning_rate", "momentum", "weight_decay", "p",
    "tau", "score_weight", "early_stopping", "similarity_scale", "calibrate", "final_list", "positives",
    "rocchio_alpha", "rocchio_beta", "rocchio_gamma", "interpolation_beta", "gradient_clip", "aggregation", "stopping",
}
# fmt: on


def _presets() -> Iterator[tuple[str, TourConfig]]:
    yield "default", TourConfig()
    # What all columns of the paper's hyper-parameter table share.
    paper = TourConfig("hard", momentum=0.99, weight_decay=0.01, p=0.5, tau=0.5, similarity_scale=1.0)
    odqa = paper.replace(learning_rate=1.2, iterations=3, depth=10, score_weight=0.1)
    yield "paper-odqa-phrases", odqa
    yield "paper-passages-phrases", paper.replace(learning_rate=1.2, iterations=1, depth=100, score_weight=1.0)
    yield "paper-passages-dpr", paper.replace(learning_rate=0.2, iterations=1, depth=100, score_weight=1.0)
    # Where the published code departs from the paper's text.
    yield "official", odqa.replace(weight_decay=0.1, gradient_clip=1.0, aggregation="softmax", stopping="nucleus")
    # The paper's method with a step for unit vectors, at 30 labels; docs/method.md says on what it was chosen.
    tour = TourConfig("hard", depth=30, iterations=1, budget=30, tau=0.5, score_weight=0.3)
    yield "tour-hard", tour.replace(learning_rate=0.5, p=0.8)
    yield "tour-soft", tour.replace(method="soft", learning_rate=0.2)
    # Baselines and peers: the method with its own defaults.
    for name in (
        "dense",
        "rerank",
        "rocchio",
        "average",
        "rocchio-rerank",
        "average-rerank",
        "refit",
        "graph",
        "ladr",
        "rgs",
        "ore",
    ):
        yield name, TourConfig(name)


PRESETS: Mapping[str, TourConfig] = dict(_presets())
