"""Sections of a YAML file, whose values are checked when they are read; errors name the section."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Flags


class Section:
    """A mapping in a YAML file.

    Example:
        >>> section = Section("demo.yaml", {"hits": 100}, allowed=["hits"])
        >>> section.number("hits", 1000)
        100

    Attributes:
        location: the file and the keys that lead to the section, such as `demo.yaml, conditions, dense`.
        values: the mapping.
    """

    def __init__(self, location: str, values: Any, *, allowed: Sequence[str] | None = None) -> None:
        """Check that the values are a mapping from names; if `allowed` is given, only these names."""
        self.location = location
        if not isinstance(values, Mapping):
            self.refuse(f"must be a mapping of names to values, not {type(values).__name__}")
        for key in values:
            if not isinstance(key, str):
                self.refuse(f"has the name {key!r:.100}, which is not text; put it in quotes")
            if allowed is not None and key not in allowed:
                self.refuse(f"has the unknown key {key!r:.100}; the keys are {', '.join(allowed)}")
        self.values: Mapping[str, Any] = values

    def refuse(self, problem: str) -> NoReturn:
        """Raise a TourError that begins with the location."""
        raise TourError(f"{self.location} {problem}.")

    def section(self, key: str, *, allowed: Sequence[str] | None = None) -> "Section":
        """A mapping inside this one; empty if it is missing."""
        return Section(f"{self.location}, {key}", self.values.get(key) or {}, allowed=allowed)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            self.refuse(
                f"needs a text for {key}" if value is None else f"has {key}: {value!r:.100}, which is not a text"
            )
        return value

    def optional_text(self, key: str) -> str | None:
        """A text, or None if it is missing."""
        return None if self.values.get(key) is None else self.text(key)

    def number(self, key: str, default: int | None) -> int | None:
        """A whole number above 0, or the default."""
        value = self.values.get(key, default)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            self.refuse(f"has {key}: {value!r:.100}, which is not a whole number above 0")
        return value

    def share(self, key: str, default: float) -> float:
        """A number from 0 to 1, or the default."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            self.refuse(f"has {key}: {value!r:.100}, which is not a number from 0 to 1")
        return float(value)

    def names(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """A list of texts."""
        value = self.values.get(key)
        if value is None:
            return tuple(default)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.refuse(f"has {key}: {value!r:.100}, which is not a list of names")
        return tuple(value)

    def flags(self, key: str) -> Flags:
        """A mapping of flags to texts, numbers, true or false."""
        flags = self.section(key)
        for name, value in flags.values.items():
            if not isinstance(value, str | int | float):
                flags.refuse(f"gives --{name} the value {value!r:.100}; write a text, a number, true or false")
        return dict(flags.values)
