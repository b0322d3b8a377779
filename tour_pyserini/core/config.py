"""Everything that decides what TouR computes, as one immutable value."""

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any

from tour_pyserini.core import methods  # noqa: F401 (registers the methods)
from tour_pyserini.core.method import METHODS, Method
from tour_pyserini.core.settings import Calibration, MethodSettings
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write

DEFAULT_METHOD = "tour"


@dataclass(frozen=True, init=False, repr=False)
class TourConfig:
    """The method and all settings of one run.

    Settings are given and read by name; one that the method does not have is refused. A config prints as text that
    parses back, and saves as a TOML file that loads back:

        >>> config = TourConfig("soft", depth=20, learning_rate=0.1)
        >>> config.depth, config.learning_rate
        (20, 0.1)
        >>> TourConfig.parse(str(config)) == config
        True
        >>> TourConfig.parse("preset=paper-passages-dpr iterations=2").learning_rate
        0.2

    Attributes:
        method: the method's name.
        settings: the values of its settings.
        calibration: what makes probabilities of relevance, if it was tuned; it changes no list.
        chosen: the method itself.
    """

    method: str
    settings: MethodSettings
    calibration: Calibration | None
    chosen: Method = field(compare=False)

    def __init__(
        self, method: str | Method = DEFAULT_METHOD, *, calibration: Calibration | None = None, **settings: Any
    ) -> None:
        """Choose a method, by name or as an object, and some of its settings; the others have their defaults."""
        chosen = _method(method)
        for name in settings:
            if name not in _names(chosen):
                raise TourError(_refusal(chosen, name))
        object.__setattr__(self, "method", chosen.name)
        object.__setattr__(self, "chosen", chosen)
        object.__setattr__(self, "settings", chosen.settings(**settings))
        object.__setattr__(self, "calibration", calibration)

    def __getattr__(self, name: str) -> Any:
        # An object being copied or unpickled has no fields yet.
        if name not in self.__dataclass_fields__ and name in _names(self.chosen):
            return getattr(self.settings, name)
        raise AttributeError(f"a TourConfig has no {name!r}, and its method no such setting")

    def __reduce__(self) -> Any:
        """Pickle the method by its name, if it is registered: plugins are loaded in every process."""
        registered = METHODS.get(self.method) == self.chosen
        method = self.method if registered else self.chosen
        return partial(TourConfig, calibration=self.calibration, **self.values()), (method,)

    @property
    def most_labels(self) -> int:
        """Labels that a query may have in all; 0 for a method that never asks the re-ranker."""
        return self.settings.most_labels

    @property
    def algorithm(self) -> dict[str, int]:
        """The version of what computes the result.

        Example:
            >>> TourConfig("hard").algorithm
            {'method': 1}
        """
        return {"method": self.chosen.version}

    def replace(self, **changes: Any) -> "TourConfig":
        """The same settings with some changed.

        With another method, settings that differ from the old method's defaults are kept where the new one has them;
        the others take the new method's defaults. The calibration is kept with the method alone.
        """
        method = changes.pop("method", self.chosen)
        chosen = _method(method)
        if chosen == self.chosen:
            return TourConfig(chosen, **{"calibration": self.calibration, **self.values(), **changes})
        kept = {name: value for name, value in self.changed().items() if name in _names(chosen)}
        return TourConfig(chosen, **{**kept, **changes})

    def values(self) -> dict[str, Any]:
        """All settings by name."""
        return dataclasses.asdict(self.settings)

    def changed(self) -> dict[str, Any]:
        """The settings that differ from the method's defaults, by name."""
        default = dataclasses.asdict(self.chosen.settings())
        return {name: value for name, value in self.values().items() if value != default[name]}

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
        except (OSError, TourError, ValueError) as error:  # a ValueError: it is not TOML, or not UTF-8
            why = getattr(error, "strerror", None) or str(error).removesuffix(".")
            raise TourError(f"cannot use the settings of {path}: {why}.") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write a TOML file that `load` reads."""
        with atomic_write(path) as file:
            for name, value in {"method": self.method, **self.values()}.items():
                file.write(f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {_as_text(value)}\n")
            if self.calibration:
                weights = dataclasses.asdict(self.calibration)
                file.write("\n[relevance]\n" + "".join(f"{name} = {value}\n" for name, value in weights.items()))

    def __str__(self) -> str:
        return " ".join(f"{name}={_as_text(value)}" for name, value in {"method": self.method, **self.values()}.items())

    def __repr__(self) -> str:
        return f"TourConfig.parse({str(self)!r})"

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> "TourConfig":
        values = dict(values)
        if weights := values.pop("relevance", None):
            known = [item.name for item in dataclasses.fields(Calibration)]
            if not isinstance(weights, dict) or weights.keys() != set(known):
                raise TourError(f"[relevance] needs {', '.join(known)}, as `tune` writes them.")
            values["calibration"] = Calibration(**weights)
        preset = values.pop("preset", None)
        method = str(values.get("method", DEFAULT_METHOD if preset is None else cls.preset(str(preset)).method))
        values["method"] = method
        return cls(**values) if preset is None else cls.preset(str(preset)).replace(**values)


def _method(method: str | Method) -> Method:
    if isinstance(method, Method):
        return method
    if method in METHODS:
        return METHODS[method]
    if method in PRESETS:
        raise TourError(f"{method} is a preset: use --preset {method}, in Python TourConfig.preset({method!r}).")
    raise TourError(f"method {method!r} is unknown: choose one of {', '.join(METHODS)}.")


def _as_text(value: object) -> str:
    """A setting's value as text that is read back: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(method: Method) -> list[str]:
    return [item.name for item in dataclasses.fields(method.settings)]


def settings_by_name() -> dict[str, tuple[dataclasses.Field[Any], list[str]]]:
    """Every setting of every method: its field, and the methods that have it."""
    found: dict[str, tuple[dataclasses.Field[Any], list[str]]] = {}
    for name, method in METHODS.items():
        for item in dataclasses.fields(method.settings):
            found.setdefault(item.name, (item, []))[1].append(name)
    return found


def _refusal(method: Method, name: str) -> str:
    if others := settings_by_name().get(name, (None, []))[1]:
        return f"the method {method.name} has no setting {name!r}, which is for {', '.join(others)}."
    return f"{name!r} is not a setting of the method {method.name}: its settings are {', '.join(_names(method))}."


def _presets() -> Iterator[tuple[str, TourConfig]]:
    yield "default", TourConfig()
    # What all columns of the paper's hyper-parameter table share.
    paper = TourConfig("hard", momentum=0.99, weight_decay=0.01, p=0.5, tau=0.5, similarity_scale=1.0)
    odqa = paper.replace(learning_rate=1.2, iterations=3, depth=10, score_weight=0.1)
    yield "paper-odqa-phrases", odqa
    yield "paper-passages-phrases", paper.replace(learning_rate=1.2, iterations=1, depth=100, score_weight=1.0)
    yield "paper-passages-dpr", paper.replace(learning_rate=0.2, iterations=1, depth=100, score_weight=1.0)
    # Where the published code departs from the paper's text.
    official = odqa.replace(weight_decay=0.1, gradient_clip=1.0, aggregation="softmax")
    yield "official", official
    yield "official-soft", official.replace(method="soft", stopping="nucleus")
    # The paper's method with a step for unit vectors, at 30 labels; docs/method.md says on what it was chosen.
    tour = TourConfig("hard", depth=30, iterations=1, budget=30, tau=0.5, score_weight=0.3)
    yield "tour-hard", tour.replace(learning_rate=0.5, p=0.8)
    yield "tour-soft", tour.replace(method="soft", learning_rate=0.2)
    # Baselines.
    yield "mixed", TourConfig("rerank", depth=30, score_weight=0.5, aggregation="standardised")
    for name in ("dense", "rerank", "rocchio", "average"):
        yield name, TourConfig(name)


PRESETS: Mapping[str, TourConfig] = dict(_presets())
