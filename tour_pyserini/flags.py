"""Flags of the commands: one for each field of a request, and one for each setting of a method."""

import argparse
import dataclasses
import os
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, Self

from tour_pyserini.command import CommandParser, FlagParser
from tour_pyserini.core.config import DEFAULT_METHOD, PRESETS, TourConfig, settings_by_name
from tour_pyserini.core.method import METHODS
from tour_pyserini.errors import TourError


def option(
    default: Any = None,
    help: str = "",
    *,
    group: str = "",
    choices: Collection[str] = (),
    count: bool = False,
    common: bool = False,
    positional: bool = False,
) -> Any:
    """A field of a request.

    Args:
        default: its value if not given; `MISSING` where it must be given.
        help: one line for `--help`.
        group: the group of flags that `--help` shows it in.
        choices: the words that it may be.
        count: whether it must be a whole number above 0.
        common: whether `--help` shows it where some fields of the request are common; `--help-all` shows all.
        positional: whether its value is given without a flag.
    """
    described = {"help": help, "group": group, "choices": choices, "count": count, "common": common}
    return dataclasses.field(default=default, metadata={**described, "positional": positional})


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
        fields = {item.name: item for item in dataclasses.fields(cls)}
        if unknown := [name for name in values if name not in fields]:
            raise TourError(f"there is no flag {flag_name(unknown[0])}.")
        if missing := [name for name, item in fields.items() if _required(item) and name not in values]:
            raise TourError(f"{flag_name(missing[0])} is missing.")
        return cls(**values)

    def flags(self) -> dict[str, Any]:
        """The fields that differ from their defaults, by the flags' names."""
        values = {item.name: (getattr(self, item.name), item.default) for item in dataclasses.fields(self)}
        return {name.replace("_", "-"): value for name, (value, default) in values.items() if value != default}


def flag_name(name: str) -> str:
    """`--batch-size` for batch_size."""
    return "--" + name.replace("_", "-")


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is MISSING


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types that a field may have."""
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _checked(item: dataclasses.Field[Any], value: Any) -> Any:
    """The value of a field; paths become text, and so do numbers of a field of text; one value of several a tuple."""
    flag, kinds, metadata = flag_name(item.name), _kinds(item.type), item.metadata
    if typing.get_origin(item.type) is tuple:
        values = () if value is None else value if isinstance(value, list | tuple) else (value,)
        value = tuple(os.fspath(each) if isinstance(each, os.PathLike) else each for each in values)
    if value is None:
        if item.type in (str, int, float, bool):
            raise TourError(f"{flag} is missing.")
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif str in kinds and is_number:
        value = str(value)  # YAML reads `context: 3` as a number
    for word in value if isinstance(value, tuple) else (value,):
        if metadata.get("choices") and word not in metadata["choices"]:
            raise TourError(f"{flag} must be one of {', '.join(metadata['choices'])}, not {word!r}.")
    wrong = {
        "a whole number above 0": metadata.get("count") and not (is_number and isinstance(value, int) and value >= 1),
        "text": str in kinds and not isinstance(value, str),
        "a number": float in kinds and not is_number,
        "true or false": bool in kinds and not isinstance(value, bool),
    }
    for expected in (expected for expected, is_wrong in wrong.items() if is_wrong):
        raise TourError(f"{flag} must be {expected}, not {value!r}.")
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


_PRF_METHODS = {"avg": "average", "rocchio": "rocchio"}
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
    prf_depth, prf_method = given.pop("prf_depth", None), given.pop("prf_method", None)
    if prf_method and prf_depth is None:
        raise TourError("--prf-method says how --prf-depth passages are used: give --prf-depth too, or --method.")
    if prf_method and given.get("method", _PRF_METHODS[prf_method]) != _PRF_METHODS[prf_method]:
        raise TourError(f"--prf-method {prf_method} and --method {given['method']} contradict each other; give one.")
    if "rocchio_topk" in given:
        given["positives"] = given.pop("rocchio_topk")
    if prf_depth:  # 0 is no feedback
        given["depth"] = prf_depth
        if not (preset or path):
            given.setdefault("method", _PRF_METHODS[prf_method or "avg"])
    start = TourConfig.load(path) if path else TourConfig.preset(preset) if preset else TourConfig()
    return start.replace(**given)


def request_parser(command: str, request: type[Request], *, description: str | None, epilog: str) -> CommandParser:
    """The parser of a command whose flags are the fields of a request; its result has the flags that were given.

    Args:
        command: the name of the sub-command.
        request: the request.
        description: what the command does.
        epilog: examples.
    """
    how: dict[str, Any] = {"description": description, "epilog": epilog, "argument_default": argparse.SUPPRESS}
    parser = CommandParser(command, usage=_usage(request), **how)
    add_request_flags(parser, request)
    return parser


Kinds = Mapping[str, tuple[type[Request], Callable[..., Any]]]
"""The request of each sub-command of a command, and the function that answers it, whose docstring is the help."""


def parse_kind(
    command: str,
    kinds: Kinds,
    argv: Sequence[str] | None,
    *,
    description: str | None,
    epilog: str,
) -> tuple[Request, Callable[..., Any]]:
    """What a command line asks for, and the function that answers it, of a command with sub-commands.

    Args:
        command: the name of the command.
        kinds: the sub-commands.
        argv: the command line; that of this process if None.
        description: what the command does.
        epilog: examples.
    """
    parser = CommandParser(command, description=description, epilog=epilog)
    parsers = parser.add_subparsers(dest="kind", required=True, parser_class=FlagParser)
    for name, (request, function) in kinds.items():
        about = str(function.__doc__).partition("\n")[0].rstrip(".")
        how: dict[str, Any] = {"description": about, "usage": _usage(request), "argument_default": argparse.SUPPRESS}
        add_request_flags(parsers.add_parser(name, help=about, **how), request)
    flags = vars(parser.parse_args(argv))
    request, function = kinds[flags.pop("kind")]
    return request.from_flags(flags), function


def _usage(request: type[Request]) -> str:
    """What must be given; the flags are in the list below it."""
    needed = [item for item in dataclasses.fields(request) if _required(item) or item.metadata.get("positional")]
    flags = {item: "" if item.metadata["positional"] else f"{flag_name(item.name)} " for item in needed}
    return " ".join(["%(prog)s", *(f"{flag}{_metavar(item)}" for item, flag in flags.items()), "[flags]"])


def _metavar(field: dataclasses.Field[Any]) -> str:
    """What stands for the value of a field in the help."""
    return "N" if field.metadata["count"] else field.name.split("_")[-1].upper()


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
        name, options = _flag(field, hints[field.name])
        action = groups[group].add_argument(name, **options)
        common = field.metadata["common"] or action.required
        if chosen and not common and isinstance(parser, CommandParser):
            parser.hide(action)


def _flag(field: dataclasses.Field[Any], hint: Any) -> tuple[str, dict[str, Any]]:
    """The name and the options of `add_argument` for a field."""
    text, kinds, required = field.metadata["help"], _kinds(hint), _required(field)
    several = any(typing.get_origin(kind) in (tuple, Sequence) for kind in kinds)
    if not required and field.default not in (None, False, ()) and "default" not in text:
        text = f"{text} (default: {field.default})"
    options: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
    if field.metadata["positional"]:
        nargs = "+" if several else None if required else "?"
        return field.name, {**options, "nargs": nargs, "metavar": _metavar(field)}
    options["required"] = required
    if bool in kinds:
        action = argparse.BooleanOptionalAction if field.default is None else "store_true"
        return flag_name(field.name), {**options, "action": action}
    if field.metadata["choices"]:
        options["choices"] = field.metadata["choices"]
    else:
        options["metavar"] = _metavar(field)
    if float in kinds or int in kinds:
        options["type"] = float if float in kinds else int
    if several:
        options |= {"nargs": "+", "action": "extend", "metavar": "NAME"}
    return flag_name(field.name), options


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
    parser.hide(add("--prf-method", choices=list(_PRF_METHODS), help="Pyserini's, with --prf-depth (default: avg)"))
    parser.hide(add("--rocchio-topk", type=int, metavar="N", help="Pyserini's name for --positives"))
