"""Settings as immutable values: typed, checked, printed as text that parses back."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError


class _Rule(NamedTuple):
    """What a value must satisfy, and the words that say so."""

    words: str
    holds: Callable[[Any], bool]


AT_LEAST_1 = _Rule("must be at least 1", lambda value: value >= 1)
AT_LEAST_2 = _Rule("must be at least 2", lambda value: value >= 2)
NOT_NEGATIVE = _Rule("must be 0 or more", lambda value: value >= 0)
POSITIVE = _Rule("must be above 0", lambda value: value > 0)
SHARE = _Rule("must lie in [0, 1]", lambda value: 0 <= value <= 1)
BELOW_1 = _Rule("must lie in [0, 1)", lambda value: 0 <= value < 1)
MASS = _Rule("must lie in (0, 1]", lambda value: 0 < value <= 1)

_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def setting(default: Any, help: str, *, rule: _Rule | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A field of a class of settings.

    Args:
        default: its value if not given; its type is the setting's type (bool, int, float or str). Where it is
            infinite, the setting may be.
        help: one line for `--help`.
        rule: what a value must satisfy.
        choices: the values that a word may have.
    """
    return field(default=default, metadata={"help": help, "rule": rule, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """Base of all settings: values given as text are converted, and every value is checked.

    Example:
        >>> @dataclass(frozen=True, kw_only=True)
        ... class StepSettings(_Settings):
        ...     step: float = setting(0.5, "step size", rule=POSITIVE)
        >>> StepSettings(step="0.25")
        StepSettings(step=0.25)
    """

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, _checked_value(item, getattr(self, item.name)))


@dataclass(frozen=True, kw_only=True)
class MethodSettings(_Settings):
    """What the settings of every method have in common."""

    signal_weight: float = setting(
        0.5, "weight of each further first-stage signal (--sparse, --index2) against the index", rule=NOT_NEGATIVE
    )

    @property
    def most_labels(self) -> int:
        """Labels that a query may have in all; 0 for a method that never asks the re-ranker."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Calibration(_Settings):
    """What makes a probability of relevance from what a search knows of a hit: a logistic model, fitted by `tune`."""

    intercept: float = setting(0.0, "log odds where all else is 0")
    label: float = setting(0.0, "weight of the re-ranker's score")
    standardised: float = setting(0.0, "weight of the score standardised within the query")
    similarity: float = setting(0.0, "weight of the similarity of the first retrieval")
    rank: float = setting(0.0, "weight of the logarithm of the rank")


def _checked_value(item: dataclasses.Field[Any], value: Any) -> Any:
    """`value` as the field's type.

    Raises:
        TourError: if it has another type, or breaks the field's rule.
    """
    kind: type = type(item.default)
    try:
        if kind is bool:
            result: Any = {"true": True, "false": False}[str(value).lower()]
        elif isinstance(value, bool) or (kind is int and isinstance(value, float) and not value.is_integer()):
            raise ValueError(value)
        else:
            result = kind(value)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise TourError(f"{item.name} must be {_TYPE_NAMES[kind]}, not {value!r}.") from None
    options: Mapping[str, Any] = item.metadata
    if kind is float and not (math.isfinite(result) or result == item.default):
        raise TourError(f"{item.name} must be a finite number, not {value!r}.")
    if options["choices"] and result not in options["choices"]:
        raise TourError(f"{item.name} must be one of {', '.join(options['choices'])}, not {value!r}.")
    rule: _Rule | None = options["rule"]
    if rule is not None and not rule.holds(result):
        raise TourError(f"{item.name} {rule.words}, not {value}.")
    return result
