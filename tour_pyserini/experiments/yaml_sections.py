"""Parts of a YAML file, with errors that name the place."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Flags


class Section:
    """A mapping of the file at a place such as `conditions, dense`.

    Example:
        section = Section("demo.yaml", {"hits": 100}, allowed=["hits"])
        section.number("hits", 1000)
    """

    def __init__(self, place: str, values: Any, *, allowed: Sequence[str] | None = None) -> None:
        """Check that the values are a mapping from names, and from `allowed` ones where given."""
        self.place = place
        if not isinstance(values, Mapping):
            self.refuse(f"must be a mapping of names to values, not {type(values).__name__}")
        for key in values:
            if not isinstance(key, str):
                self.refuse(f"has the name {key!r}, which is not text; put it in quotes")
            if allowed is not None and key not in allowed:
                self.refuse(f"has {key!r}, which is none of {', '.join(allowed)}")
        self.values: Mapping[str, Any] = values

    def refuse(self, problem: str) -> NoReturn:
        """Raise a TourError that names the place."""
        raise TourError(f"{self.place} {problem}.")

    def section(self, key: str, *, allowed: Sequence[str] | None = None) -> "Section":
        """A mapping inside; empty where it is missing or left blank."""
        return Section(f"{self.place}, {key}", self.values.get(key) or {}, allowed=allowed)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            self.refuse(f"needs a text for {key}" if value is None else f"has {key}: {value!r}, which is not a text")
        return value

    def optional_text(self, key: str) -> str | None:
        """A text, or None where there is none."""
        return None if self.values.get(key) is None else self.text(key)

    def number(self, key: str, default: int | None) -> int | None:
        """A whole number above 0, or the default."""
        value = self.values.get(key, default)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            self.refuse(f"has {key}: {value!r}, which is not a whole number above 0")
        return value

    def names(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """A list of texts."""
        value = self.values.get(key)
        if value is None:
            return tuple(default)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.refuse(f"has {key}: {value!r}, which is not a list of names")
        return tuple(value)

    def flags(self, key: str) -> Flags:
        """A mapping of flags to texts, numbers, true or false."""
        flags = self.section(key)
        for name, value in flags.values.items():
            if not isinstance(value, str | int | float):
                flags.refuse(f"gives --{name} the value {value!r}; write a text, a number, true or false")
        return dict(flags.values)
