"""The parser of every command: its name as the user typed it, --version, and Tab completion."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tour_pyserini
from tour_pyserini.errors import TourError


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples, and shows defaults that are not empty."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        shown = action.default not in (None, argparse.SUPPRESS, False, [])
        return f"{text} (default: %(default)s)" if shown and "default" not in text else text


class CommandParser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` with the name of a command, `--version`, and Tab completion by argcomplete.

    Args:
        command: the name of the sub-command, for example `search`; None for the program `tour` itself.
        options: those of `argparse.ArgumentParser`; `formatter_class` is `Help` by default.
    """

    def __init__(self, command: str | None, **options: Any) -> None:
        super().__init__(prog=program_name(command), **{"formatter_class": Help} | options)
        self.add_argument("--version", action=_Version, nargs=0, dest=argparse.SUPPRESS, default=argparse.SUPPRESS)

    def parse_args(  # type: ignore[override]  # argparse declares overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse as argparse does; if a shell asks for completions, write them and exit.

        Raises:
            TourError: if an argument contains NUL, which no name of a file does.
        """
        if "_ARGCOMPLETE" in os.environ:
            self._complete()
        for word in sys.argv[1:] if args is None else args:
            if "\0" in word:
                raise TourError(f"{self.prog}: the argument {word!r:.200} contains NUL; leave it out.")
        return super().parse_args(args, namespace)

    def _complete(self) -> None:
        try:
            import argcomplete
        except ImportError:
            return  # the extra `completion` is not installed
        argcomplete.autocomplete(self)


def program_name(command: str | None = None) -> str:
    """What the user typed to start a command: `tour search` or `python -m tour_pyserini.search`."""
    started = Path(sys.argv[0])
    if started.stem == "tour":
        program = "tour"
    elif started.name == "__main__.py" and started.parent.name == "tour_pyserini":
        program = "python -m tour_pyserini"
    else:  # the module of the command, or a program that calls its function `main`
        return f"python -m tour_pyserini.{command.replace('-', '_')}" if command else "tour"
    return f"{program} {command}" if command else program


class _Version(argparse.Action):
    """`--version`: print the version and exit. The version is looked up only then, which takes time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, help="print the version of tour_pyserini and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        sys.stdout.write(f"tour_pyserini {tour_pyserini.__version__}\n")
        parser.exit()
