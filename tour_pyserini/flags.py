"""Flags of the commands: one for each field of a request, and one for each setting of a method."""

import argparse
import dataclasses
import os
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tour_pyserini.command import CommandParser
from tour_pyserini.core.config import DEFAULT_METHOD, PRESETS, TourConfig, settings_by_name
from tour_pyserini.core.method import METHODS
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
    common: bool = False,
) -> Any:
    """A field of a request.

    Args:
        default: its value if not given.
        help: one line for `--help`.
        group: the group of flags that `--help` shows it in.
        choices: the words that it may be.
        count: whether it must be a whole number above 0.
        metavar: what `--help` shows for its value.
        common: whether `--help` shows it where some fields of the request are common; `--help-all` shows all.
    """
    metadata = {"help": help, "group": group, "choices": choices, "count": count, "metavar": metavar, "common": common}
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
    """Base of all requests. Each field is a flag of the command: `batch_size` is `--batch-size`.

    Attributes:
        NO_FLAGS: names of fields that are no flags of this command.
    """

    NO_FLAGS: typing.ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
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


PRF_METHODS = {"avg": "average", "rocchio": "rocchio"}
"""Pyserini's names of methods, and ours."""


def config_from_flags(flags: Mapping[str, Any]) -> TourConfig:
    """The settings that flags describe.

    Args:
        flags: by name, with underscores: `preset` or `config` to start from, `method`, any setting, and Pyserini's
            names `prf_depth`, `prf_method` and `rocchio_topk`.
    """
    given = dict(flags)
    preset, path = given.pop("preset", None), given.pop("config", None)
    if preset and path:
        raise TourError("--preset and --config both say where to start; give one of them.")
    for name, ours in (("prf_depth", "depth"), ("rocchio_topk", "positives")):
        if name in given and ours in given:
            raise TourError(f"{flag_name(ours)} and {flag_name(name)} are two names of one setting; give one of them.")
    if "prf_method" in given and "prf_depth" not in given:
        raise TourError("--prf-method says how --prf-depth passages are used: give --prf-depth too, or --method.")
    prf_method = given.pop("prf_method", None)
    method = PRF_METHODS[prf_method or "avg"]
    if prf_method and given.get("method", method) != method:
        raise TourError(f"--prf-method {prf_method} and --method {given['method']} contradict each other; give one.")
    if "rocchio_topk" in given:
        given["positives"] = given.pop("rocchio_topk")
    if prf_depth := given.pop("prf_depth", 0):
        given["depth"] = prf_depth
        if not (preset or path):
            given.setdefault("method", method)
    start = TourConfig.load(path) if path else TourConfig.preset(preset) if preset else TourConfig()
    return start.replace(**given)


def positive(text: str) -> int:
    """The type of a flag whose value is a whole number above 0."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def request_parser(command: str, request: type[Request], *, description: str, epilog: str) -> CommandParser:
    """The parser of a command whose flags are the fields of a request; its result has the flags that were given.

    Args:
        command: the name of the sub-command.
        request: the request.
        description: what the command does.
        epilog: examples.
    """
    required = [item for item in dataclasses.fields(request) if item.default is item.default_factory]
    flags = [f"{flag_name(item.name)} {_metavar(item)}" for item in required if item.metadata]
    usage = " ".join(["%(prog)s", *(_metavar(item) for item in required if not item.metadata), *flags, "[flags]"])
    parser = CommandParser(
        command, usage=usage, description=description, epilog=epilog, argument_default=argparse.SUPPRESS
    )
    add_request_flags(parser, request)
    return parser


def _metavar(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get("metavar") or field.name.upper()


def add_request_flags(parser: argparse.ArgumentParser, request: type[Request]) -> None:
    """Add a flag for each field of a request that has a help text: of a group, the common ones first."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    hints = typing.get_type_hints(request)
    described = (field for field in dataclasses.fields(request) if field.metadata.get("help"))
    fields = [field for field in described if field.name not in request.NO_FLAGS]
    chosen = any(field.metadata["common"] for field in fields)
    for field in fields:
        group = field.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        action = groups[group].add_argument(flag_name(field.name), **_flag_options(field, hints[field.name]))
        common = field.metadata["common"] or action.required
        if chosen and not common and isinstance(parser, CommandParser):
            parser.hide(action)


def _flag_options(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    """The options of `add_argument` for the flag of a field."""
    required = field.default is dataclasses.MISSING
    text = field.metadata["help"]
    if not required and field.default not in (None, False, (), "") and "default" not in text:
        text = f"{text} (default: {field.default})"
    options: dict[str, Any] = {"help": text, "required": required, "default": argparse.SUPPRESS}
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if bool in kinds:
        optional = field.default is None
        return options | {"action": argparse.BooleanOptionalAction if optional else "store_true"}
    if field.metadata["count"]:
        options |= {"type": positive, "metavar": "N"}
    elif float in kinds or int in kinds:
        options["type"] = float if float in kinds else int
    if field.metadata["choices"]:
        options["choices"] = field.metadata["choices"]
    if field.metadata["metavar"]:
        options["metavar"] = field.metadata["metavar"]
    if any(typing.get_origin(kind) in (tuple, Sequence) for kind in kinds):
        options |= {"nargs": "+", "action": "extend"}
    return options


def add_config_flags(parser: CommandParser, title: str) -> None:
    """Add `--preset`, `--config`, `--method`, and a flag for each setting; common are the numbers of labels."""
    add = parser.add_argument_group(title).add_argument
    presets = f"settings to start from, such as mixed or tour-hard; {', '.join(PRESETS)}"
    add("--preset", choices=list(PRESETS), metavar="PRESET", help=presets)
    parser.hide(add("--config", metavar="FILE", help="start from a TOML file of settings"))
    method = add("--method", help=f"{', '.join(METHODS)} (default: {DEFAULT_METHOD})")
    method.completer = lambda **_: list(METHODS)  # type: ignore[attr-defined]  # for Tab completion by argcomplete
    for name, (field, methods) in settings_by_name().items():
        described = ["all methods"] if len(methods) == len(METHODS) else methods
        text = f"{field.metadata['help']} (default: {field.default}; {', '.join(described)})"
        options: dict[str, Any] = {"metavar": name.split("_")[-1].upper()}
        if isinstance(field.default, bool):
            options = {"action": argparse.BooleanOptionalAction}
        action = add(flag_name(name), help=text, **options)
        if name not in ("depth", "budget"):
            parser.hide(action)
    prf_depth = "Pyserini's: feedback from this many passages; sets --depth"
    parser.hide(add("--prf-depth", type=int, metavar="N", help=prf_depth))
    parser.hide(add("--prf-method", choices=list(PRF_METHODS), help="Pyserini's, with --prf-depth (default: avg)"))
    parser.hide(add("--rocchio-topk", type=int, metavar="N", help="Pyserini's name for --positives"))
