"""Requests: what a command is asked to do, as one immutable value."""

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tour_pyserini.errors import TourError

# Types of fields.
_TEXT, _NUMBER, _SWITCH = (str, str | None), (float, float | None), (bool, bool | None)


def option(
    default: Any = None,
    help: str = "",
    *,
    group: str = "",
    choices: Collection[str] = (),
    count: bool = False,
    metavar: str | None = None,
) -> Any:
    """A field of a request.

    Args:
        default: its value if not given.
        help: one line for `--help`.
        group: the group of flags that `--help` shows it in.
        choices: the words that it may be.
        count: whether it must be a whole number above 0.
        metavar: what `--help` shows for its value.
    """
    metadata = {"help": help, "group": group, "choices": choices, "count": count, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata)


def same_option(request: type["Request"], name: str, *, group: str, help: str | None = None) -> Any:
    """The field of another request, in another group of flags.

    Args:
        request: the request that declares the field.
        name: its name.
        group: the group of flags that `--help` shows it in.
        help: one line for `--help`, where the line of the other request does not fit.
    """
    (field,) = (item for item in dataclasses.fields(request) if item.name == name)
    metadata = {**field.metadata, "group": group, "help": help or field.metadata["help"]}
    return dataclasses.field(default=field.default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Base of all requests. Each field is a flag of the command: `batch_size` is `--batch-size`."""

    def __post_init__(self) -> None:
        check_names(self)
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, _checked(item, getattr(self, item.name)))

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The request that flags describe.

        Args:
            flags: values by the flags' names, with hyphens or underscores.

        Raises:
            TourError: if the command has no such flag, or a flag is missing or wrong.
        """
        values = {name.replace("-", "_"): value for name, value in flags.items()}
        names = {item.name for item in dataclasses.fields(cls)}
        for name in values:
            if name not in names:
                raise TourError(f"there is no flag {flag_name(name)}.")
        for item in dataclasses.fields(cls):
            if item.default is item.default_factory is dataclasses.MISSING and item.name not in values:
                raise TourError(f"{flag_name(item.name)} is missing.")
        return cls(**values)

    def flags(self) -> dict[str, Any]:
        """The fields that differ from their defaults, by the flags' names."""
        values = {item.name: (getattr(self, item.name), item.default) for item in dataclasses.fields(self)}
        return {name.replace("_", "-"): value for name, (value, default) in values.items() if value != default}


def check_names(request: Any) -> None:
    """Refuse NUL in the texts of a request (a dataclass): no name of a file can contain it."""
    for item in dataclasses.fields(request):
        for name in _names(getattr(request, item.name)):
            if "\0" in name:
                raise TourError(f"{flag_name(item.name)} has NUL in {name!r:.200}, which no name can contain.")


def _names(value: Any) -> Iterator[str]:
    """The texts and paths in a value of a field."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _names(part)
    elif isinstance(value, str | os.PathLike):
        yield str(value)


def flag_name(name: str) -> str:
    """`--batch-size` for batch_size."""
    return "--" + name.replace("_", "-")


def _checked(item: dataclasses.Field[Any], value: Any) -> Any:
    """The value of a field; paths become text, and so do numbers of a field of text."""
    flag, kind = flag_name(item.name), item.type
    if value is None:
        if kind in (str, int, float, bool):
            raise TourError(f"{flag} is missing.")
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif kind in _TEXT and is_number:
        value = str(value)  # YAML reads `context: 3` as a number
    choices = item.metadata.get("choices", ())
    for word in value if isinstance(value, tuple) else (value,):
        if choices and word not in choices:
            raise TourError(f"{flag} must be one of {', '.join(choices)}, not {word!r}.")
    if item.metadata.get("count") and not (is_number and isinstance(value, int) and value >= 1):
        raise TourError(f"{flag} must be a whole number above 0, not {value!r}.")
    if kind in _TEXT and not isinstance(value, str):
        raise TourError(f"{flag} must be text, not {value!r}.")
    if kind in _NUMBER and not is_number:
        raise TourError(f"{flag} must be a number, not {value!r}.")
    if kind in _SWITCH and not isinstance(value, bool):
        raise TourError(f"{flag} is true or false, not {value!r}.")
    return value


def words(flags: Mapping[str, Any]) -> list[str]:
    """The words of a command line; true is the flag alone, false its negation.

    Example:
        >>> words({"method": "rerank", "depth": 30, "early-stopping": False})
        ['--method', 'rerank', '--depth', '30', '--no-early-stopping']
    """
    result: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            result.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, list | tuple):
            result += [f"--{name}", *map(str, value)]
        elif str(value).startswith("-"):
            result.append(f"--{name}={value}")  # a separate word would be read as a flag
        else:
            result += [f"--{name}", str(value)]
    return result
