"""Flags of a command, from a mapping to words."""

from collections.abc import Iterator, Mapping
from string import Template

from tour_pyserini.errors import TourError

Value = str | int | float | bool
Flags = Mapping[str, Value]


def words(flags: Flags) -> list[str]:
    """The words of a command line; true is the flag alone, false its negation.

    Example:
        >>> words({"method": "rerank", "depth": 30, "early-stopping": False})
        ['--method', 'rerank', '--depth', '30', '--no-early-stopping']
    """
    return [word for name, value in flags.items() for word in _flag(name, value)]


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with its ${VARIABLES} replaced.

    Raises:
        TourError: if there is no such variable.
    """
    try:
        return Template(text).substitute(variables)
    except KeyError as missing:
        name = str(missing).strip("'")
        hint = "give --data DIR" if name == "DATA" else f"set it in the environment: {name}=..."
        raise TourError(f"{text!r} needs the variable {name}; {hint}.") from None
    except ValueError:
        raise TourError(f"{text!r} has a $ that begins no ${{VARIABLE}}; write $$ for the sign itself.") from None


def _flag(name: str, value: Value) -> Iterator[str]:
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--no-{name}"
    elif str(value).startswith("-"):
        yield f"--{name}={value}"  # by itself it would be taken for a flag
    else:
        yield from (f"--{name}", str(value))
