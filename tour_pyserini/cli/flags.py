"""Flags of the commands: one for each field of a request, and one for each setting of a method."""

import argparse
import dataclasses
import types
import typing
from typing import Any

from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.core.config import DEFAULT_METHOD, PRESETS, settings_by_name
from tour_pyserini.core.method import METHODS
from tour_pyserini.pipeline.config_flags import PRF_METHODS
from tour_pyserini.pipeline.request import Request, flag_name


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
    parser = CommandParser(
        command, description=description, epilog=epilog, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    add_request_flags(parser, request)
    return parser


def add_request_flags(parser: argparse.ArgumentParser, request: type[Request]) -> None:
    """Add a flag for each field of a request that has a help text."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    hints = typing.get_type_hints(request)
    for field in dataclasses.fields(request):
        if not field.metadata.get("help"):
            continue
        group = field.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        groups[group].add_argument(flag_name(field.name), **_flag_options(field, hints[field.name]))


def _flag_options(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    """The options of `add_argument` for the flag of a field."""
    required = field.default is dataclasses.MISSING
    text = field.metadata["help"]
    if not required and field.default not in (None, False, ()) and "default" not in text:
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
    elif field.metadata["metavar"]:
        options["metavar"] = field.metadata["metavar"]
    if any(typing.get_origin(kind) is tuple for kind in kinds):
        options |= {"nargs": "+", "action": "extend"}
    return options


def add_config_flags(parser: argparse._ArgumentGroup) -> None:
    """Add `--preset`, `--config`, `--method`, and a flag for each setting of any method."""
    parser.add_argument("--preset", choices=list(PRESETS), help="start from these settings")
    parser.add_argument("--config", metavar="FILE", help="start from a TOML file of settings")
    method = parser.add_argument("--method", help=f"update rule: {', '.join(METHODS)} (default: {DEFAULT_METHOD})")
    method.completer = lambda **_: list(METHODS)  # type: ignore[attr-defined]  # for Tab completion by argcomplete
    for name, (field, methods) in settings_by_name().items():
        methods = ["all methods"] if len(methods) == len(METHODS) else methods
        text = f"{field.metadata['help']} (default: {field.default}; {', '.join(methods)})"
        if isinstance(field.default, bool):
            parser.add_argument(flag_name(name), action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(flag_name(name), metavar=name.split("_")[-1].upper(), help=text)
    prf_depth = "Pyserini's: feedback from this many passages; sets --depth"
    parser.add_argument("--prf-depth", type=int, metavar="N", help=prf_depth)
    parser.add_argument("--prf-method", choices=list(PRF_METHODS), help="Pyserini's, with --prf-depth (default: avg)")
    parser.add_argument("--rocchio-topk", type=int, metavar="N", help="Pyserini's name for --positives")
