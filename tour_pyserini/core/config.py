"""Everything that decides what TouR computes, as one immutable value."""

import dataclasses
import math
import re
import tomllib
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from tour_pyserini.errors import TourError


def _option(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class TourConfig:
    """The settings of one run; the paper's symbols are in each field's help.

    A value prints as text that parses back, and saves as a TOML file that loads back:

        >>> config = TourConfig(method="soft", depth=20)
        >>> TourConfig.parse(str(config)) == config
        True
        >>> TourConfig.parse("preset=paper-passages-dpr iterations=2").learning_rate
        0.2

    The plain constructor gives the preset `default`.
    """

    method: str = _option(
        "anchored",
        "update rule: anchored, anchored-soft, anchored-hard; hard or soft (TouR), top, interpolation; rerank, dense, "
        "rocchio, average, rocchio-rerank, average-rerank; refit, regression, graph",
    )
    depth: int = _option(10, "candidates retrieved and labelled in each iteration (k)")
    iterations: int = _option(3, "most updates of a query (T)")
    budget: int = _option(
        0, "most labels of a query; 0: as many as depth and iterations come to. Anchored rounds go on until it is spent"
    )
    anchor: float = _option(3.0, "anchored: how firmly the query is held to the encoder's vector (kappa)")
    least_gain: float = _option(
        0.2,
        "anchored: stop when the next candidates are expected to hold less than this share of the relevance that "
        "the first ten have; 0: never",
    )
    learning_rate: float = _option(0.2, "step size before its linear decay (eta)")
    momentum: float = _option(0.0, "momentum of gradient descent; the paper's is 0.99")
    weight_decay: float = _option(0.01, "weight decay of gradient descent (lambda_decay)")
    p: float = _option(0.5, "mass of re-ranker probability that the pseudo-positives hold")
    tau: float = _option(2.0, "temperature of the re-ranker's probabilities (tau); the paper's is 0.5")
    score_weight: float = _option(0.5, "share of the re-ranker's score in the final score (lambda)")
    early_stopping: bool = _option(True, "leave a query alone once its first hit agrees with the labels")
    similarity_scale: float = _option(
        20.0,
        "factor that puts similarities on a logit scale: 1 for the paper's encoders, more for unit-norm ones",
    )
    calibrate: str = _option(
        "method",
        "find the scale of similarities on the first candidates; method: where the method keeps its labels",
        ("method", "always", "never"),
    )
    final_list: str = _option(
        "last", "rank the last retrieval, or the union of all labelled candidates", ("last", "union")
    )
    positives: int = _option(3, "pseudo-positives of the methods top and rocchio (k')")
    rocchio_alpha: float = _option(0.9, "Rocchio: weight of the query")
    rocchio_beta: float = _option(0.1, "Rocchio: weight of the mean of the first k' candidates")
    rocchio_gamma: float = _option(0.1, "Rocchio: weight of the mean of the other candidates")
    interpolation_beta: float = _option(0.3, "interpolation: weight of the mean of the pseudo-positives")
    gradient_clip: float = _option(math.inf, "largest gradient norm; the published code uses 1")
    aggregation: str = _option(
        "linear",
        "final score from raw scores (paper), or from probabilities (published code)",
        ("linear", "softmax"),
    )
    stopping: str = _option(
        "method",
        "stop on the method's own test (paper), or on the nucleus always (published code)",
        ("method", "nucleus"),
    )

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, _as_type(item, getattr(self, item.name)))
        from tour_pyserini.core.methods import METHODS

        _require(self.method in METHODS, f"method {self.method!r} is unknown: choose one of {', '.join(METHODS)}")
        _require(self.depth >= 1, f"depth must be at least 1, not {self.depth}")
        _require(self.iterations >= 0, f"iterations cannot be negative: {self.iterations}")
        _require(self.budget >= 0, f"budget cannot be negative: {self.budget}")
        _require(self.anchor > 0, f"anchor must be above 0, not {self.anchor}")
        _require(self.least_gain >= 0, f"least_gain cannot be negative: {self.least_gain}")
        _require(self.learning_rate >= 0, f"learning_rate cannot be negative: {self.learning_rate}")
        _require(0 <= self.momentum < 1, f"momentum must lie in [0, 1), not {self.momentum}")
        _require(self.weight_decay >= 0, f"weight_decay cannot be negative: {self.weight_decay}")
        _require(0 < self.p <= 1, f"p must lie in (0, 1], not {self.p}")
        _require(self.tau > 0, f"tau must be above 0, not {self.tau}")
        _require(0 <= self.score_weight <= 1, f"score_weight must lie in [0, 1], not {self.score_weight}")
        _require(self.similarity_scale >= 0, f"similarity_scale cannot be negative: {self.similarity_scale}")
        _require(self.positives >= 1, f"positives must be at least 1, not {self.positives}")
        _require(self.gradient_clip > 0, f"gradient_clip must be above 0, not {self.gradient_clip}")

    @property
    def calibrates(self) -> bool:
        """Whether the scale of similarities is found on the first candidates."""
        from tour_pyserini.core.methods import METHODS

        return self.calibrate == "always" or (self.calibrate == "method" and METHODS[self.method].keeps)

    @property
    def rounds(self) -> int:
        """Most updates: the iterations or, for a method that buys new labels in each, what the budget allows."""
        from tour_pyserini.core.methods import METHODS

        return -(-self.budget // self.depth) if self.budget and METHODS[self.method].keeps else self.iterations

    @property
    def most_labels(self) -> int:
        """Labels that a query may have in all."""
        from tour_pyserini.core.methods import METHODS

        return self.budget or self.depth * (self.iterations + (not METHODS[self.method].keeps))

    def replace(self, **changes: Any) -> Self:
        """The same settings but for the named ones."""
        _known(changes)
        return dataclasses.replace(self, **changes)

    @classmethod
    def preset(cls, name: str) -> "TourConfig":
        """The settings known by `name`; see `tour_pyserini.core.presets`."""
        from tour_pyserini.core.presets import PRESETS

        _require(name in PRESETS, f"preset {name!r} is unknown: choose one of {', '.join(PRESETS)}")
        return PRESETS[name]

    @classmethod
    def parse(cls, text: str) -> "TourConfig":
        """Read `name=value` pairs, separated by blanks or commas, over a `preset=NAME` or the default."""
        values = {}
        for word in filter(None, re.split(r"[\s,]+", text)):
            name, equals, value = word.partition("=")
            _require(bool(equals), f"{word!r} is not of the form name=value")
            _require(name not in values, f"{name} is given twice")
            values[name] = value
        return cls._over_preset(values)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "TourConfig":
        """Read a TOML file of settings, over its `preset` if it names one."""
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
            return cls._over_preset(values)
        except OSError as error:
            raise TourError(f"cannot read the settings file {path}: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TourError(f"{path} is not a TOML file of settings: {error}.") from error
        except TourError as error:
            raise TourError(f"{path}: {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write a TOML file that `load` reads."""
        from tour_pyserini.support.files import written_whole

        with written_whole(path) as file:
            for name, value in dataclasses.asdict(self).items():
                file.write(f'{name} = "{value}"\n' if isinstance(value, str) else f"{name} = {_text(value)}\n")

    def __str__(self) -> str:
        return " ".join(f"{name}={_text(value)}" for name, value in dataclasses.asdict(self).items())

    @classmethod
    def _over_preset(cls, values: dict[str, Any]) -> "TourConfig":
        return cls.preset(str(values.pop("preset", "default"))).replace(**values)


def _as_type(item: dataclasses.Field[Any], value: Any) -> Any:
    """`value` as the field's type; text is parsed, anything else must fit."""
    kind: type = type(item.default)
    try:
        if kind is bool:
            result = {"true": True, "false": False}[str(value).lower()]
        elif kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError(value)
        else:
            result = kind(value)
    except (KeyError, ValueError, TypeError):
        raise TourError(f"{item.name} must be {_NAMES[kind]}, not {value!r}.") from None
    if kind is float and not (
        math.isfinite(result) or (item.name in ("gradient_clip", "anchor") and result == math.inf)
    ):
        raise TourError(f"{item.name} must be a finite number, not {value!r}.")
    choices = item.metadata["choices"]
    _require(not choices or result in choices, f"{item.name} must be one of {', '.join(choices)}, not {value!r}")
    return result


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known(names: dict[str, Any]) -> None:
    fields = [item.name for item in dataclasses.fields(TourConfig)]
    for name in names:
        _require(name in fields, f"{name!r} is not a setting: the settings are {', '.join(fields)}")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise TourError(f"{problem}.")
