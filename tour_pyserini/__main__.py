# PYTHON_ARGCOMPLETE_OK
"""The program `tour`, also `python -m tour_pyserini`: runs the sub-command that its first argument names.

`tour search ...` is `python -m tour_pyserini.search ...`. A module is loaded only if its sub-command is run.
"""

import argparse
import ast
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from tour_pyserini.command import WRONG_INPUT, CommandParser, program_name, run

TASKS = {
    "search": ("index", "search", "merge", "serve"),
    "measure and look": ("compare", "page", "experiment", "answers", "convert"),
    "learn from judgements and labels": ("tune", "learn", "train"),
    "installation and caches": ("demo", "doctor", "cache"),
}
COMMANDS = tuple(command for commands in TASKS.values() for command in commands)
"""The sub-commands, by task in the order of the help text; each is a module of this package."""


def tour() -> NoReturn:
    """Run the program on the arguments of this process."""
    run(main)


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the sub-command that the first argument names, on the other arguments."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = _command_to_complete() if "_ARGCOMPLETE" in os.environ else next(iter(words), None)
    if command not in COMMANDS:
        parser = _parser()
        parser.parse_args(words)  # for --help, --version, completion and unknown sub-commands, it exits here
        parser.print_help(sys.stderr)
        return WRONG_INPUT
    code: int | None = importlib.import_module(f"tour_pyserini.{command}").main(words[1:])
    return code


def summary(command: str) -> str:
    """The first line of the docstring of a sub-command's module, read without running the module."""
    spec = find_spec(f"tour_pyserini.{command}")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    docstring = ast.get_docstring(ast.parse(source)) if source else None
    return (docstring or "").partition("\n")[0]


def _parser() -> CommandParser:
    listed = "\n\n".join(
        "\n".join([f"{task}:", *(f"  {command:<10}  {summary(command)}" for command in commands)])
        for task, commands in TASKS.items()
    )
    parser = CommandParser(
        None,
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=f"TouR for Pyserini: query vectors that learn at test time.\n\n{listed}",
        epilog=f"`{program_name()} COMMAND --help` describes a command.",
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def _command_to_complete() -> str | None:
    """The sub-command in the line that a shell wants completed, if it is there; argcomplete then skips `tour`.

    The variable _ARGCOMPLETE is the number of words in COMP_LINE up to the program: 1 for `tour`, 3 for `python -m
    tour_pyserini`.
    """
    try:
        from argcomplete.lexers import split_line
    except ImportError:
        return None  # the extra `completion` is not installed
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    program_words = int(os.environ["_ARGCOMPLETE"])
    if len(words) <= program_words or words[program_words] not in COMMANDS:
        return None
    os.environ["_ARGCOMPLETE"] = str(program_words + 1)
    return str(words[program_words])


if __name__ == "__main__":
    tour()
