"""How every command starts and ends."""

import argparse
import contextlib
import difflib
import itertools
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tour_pyserini
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import full_disk, unwritable
from tour_pyserini.support.packages import load_plugins, plugin_arguments

# Threads that spin while they wait make a busy machine ten times slower; read when the libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

WRONG_INPUT, FAILED = 2, 1
_SIGNALLED = 128  # added to the number of the signal that ended a command, as shells do: 130 after Ctrl-C

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal was closed"}


def run(main: Callable[[Sequence[str] | None], int | None]) -> NoReturn:
    """Load plugins, run a command on the arguments of this process, and leave with its exit code (0 for None).

    A mistake of the user's (`TourError`) is one sentence and exit code 2; any other exception is one sentence and exit
    code 1, with its traceback where --debug or TOUR_DEBUG asks for it.

    Example:
        if __name__ == "__main__":
            run(main)
    """
    signals: list[int] = []
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        with _ended_by_signals(signals):
            load_plugins(plugin_arguments(sys.argv[1:]))
            code = main(None)
            sys.stdout.flush()
    except TourError as error:
        _leave(WRONG_INPUT, f"error: {error}")
    except BrokenPipeError:
        # The reader of our output closed it, for example `head`.
        _leave(0)
    except KeyboardInterrupt:
        number = signals[0] if signals else signal.SIGINT
        what = _WORDS[signal.Signals(number)]
        _leave(_SIGNALLED + number, f"{what}; run the same command again to continue from what was kept.")
    except SystemExit:
        raise
    except BaseException as error:  # a panic of a tokenizer is no Exception
        if "--debug" in sys.argv or os.environ.get("TOUR_DEBUG"):
            raise
        if isinstance(error, OSError) and full_disk(error):
            _leave(WRONG_INPUT, f"error: {unwritable(error.filename or 'the output', error)}")
        said = TourError(f"{type(error).__name__}: {first_line(error)}")  # one line without control characters
        _leave(FAILED, f"error: {said}; add --debug or set TOUR_DEBUG=1 to see where.")
    sys.exit(code)


@contextlib.contextmanager
def _ended_by_signals(seen: list[int]) -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, unless they are ignored (nohup); they are noted in `seen`.

    Like Ctrl-C, they remove temporary files and keep what can be continued.
    """
    process = os.getpid()
    signals = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        in_command = os.getpid() == process
        for each in signals:  # a second signal does not disturb the end; a process forked from the command just ends
            signal.signal(each, signal.SIG_IGN if in_command else signal.SIG_DFL)
        if in_command:
            seen.append(number)  # a library may raise another KeyboardInterrupt in place of this one
            raise KeyboardInterrupt
        os.kill(os.getpid(), number)

    for number in signals:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)


def _leave(code: int, message: str = "") -> NoReturn:
    """Exit after a message. Output that cannot be written any more must not be reported by Python at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with contextlib.suppress(OSError):  # the terminal may be gone
        if message:
            sys.stderr.write(f"{message}\n")
    sys.exit(code)


class _Help(argparse.HelpFormatter):
    """Fits text to the terminal, and keeps the lines of examples and lists."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 28, **options: Any) -> None:
        super().__init__(prog, indent_increment, max_help_position, **options)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:
            return f"{self._metavar_formatter(action, default_metavar)(1)[0]} ..."
        return super()._format_args(action, default_metavar)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, argparse.BooleanOptionalAction):
            return action.option_strings[0].replace("--", "--[no-]")
        return super()._format_action_invocation(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip().split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(_folded(part, width) if "\n " in part else fill(part, width, indent) for part in parts)

    def _format_usage(self, usage: str | None, *others: Any) -> str:
        text = super()._format_usage(usage, *others)
        return _folded(text, self._width, "") if usage else text

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


def _folded(lines: str, width: int, end: str = " \\") -> str:
    """Lines of at most this width, if their words allow it; a command goes on after a backslash."""
    how: dict[str, Any] = {"subsequent_indent": "      ", "break_long_words": False, "break_on_hyphens": False}
    bound = re.sub(r"(--\S+) (?=[^-\s])", "\\1\N{NO-BREAK SPACE}", lines)  # a flag stays with its value
    fitting = [
        line if len(line) <= width else f"{end}\n".join(textwrap.wrap(line, width - len(end), **how))
        for line in bound.split("\n")
    ]
    return "\n".join(fitting).replace("\N{NO-BREAK SPACE}", " ")


class FlagParser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` without abbreviations whose refusals are one line, with the nearest flag or word."""

    def __init__(self, *words: Any, **options: Any) -> None:
        kinds: dict[str, Any] = {"formatter_class": _Help, "allow_abbrev": False}
        super().__init__(*words, **kinds | options)

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse as argparse does; a flag that does not exist ends the command, before one that is missing does."""
        words, flags = list(sys.argv[1:] if args is None else args), self._option_string_actions
        for word in itertools.takewhile(lambda word: word != "--", () if self._subparsers else words):
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and name not in flags:
                self.error(f"there is no flag {name}{_nearest(name, flags)}")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong with the arguments, and leave with exit code 2."""
        self.exit(WRONG_INPUT, f"{self.prog}: error: {message}; --help shows the flags.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        words = [str(word) for word in action.choices or ()]
        if words and value not in (action.choices or ()):
            near = _nearest(str(value), words) or f" (choose from {', '.join(words)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{near}")


def _nearest(word: str, words: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(word, list(words), 1)
    return f": did you mean {nearest[0]}?" if nearest else ""


class CommandParser(FlagParser):
    """A parser with the name of a command, `--version`, and Tab completion by argcomplete.

    Args:
        command: the name of the sub-command, for example `search`; None for the program `tour` itself.
        options: those of `argparse.ArgumentParser`; `formatter_class` is `_Help` by default.
    """

    def __init__(self, command: str | None, **options: Any) -> None:
        for name in ("description", "epilog"):  # examples are what the user would type
            text = options.get(name) or ""
            options[name] = re.sub(r"python -m tour_pyserini\.(\w+)", lambda found: program_name(found[1]), text)
        super().__init__(prog=program_name(command), **options)
        self._rare = [
            self._add_text("--version", "print the version", lambda: f"tour_pyserini {tour_pyserini.__version__}\n"),
            # `run` reads it; a request has no field for it.
            self._add_text("--debug", "show the traceback of an unexpected error"),
        ]
        self._always = len(self._rare)

    def _add_text(self, flag: str, help: str, text: Callable[[], str] | None = None) -> argparse.Action:
        return self.add_argument(
            flag, action=_Text, text=text, help=help, nargs=0, dest=argparse.SUPPRESS, default=argparse.SUPPRESS
        )

    def hide(self, action: argparse.Action) -> None:
        """Show a flag in --help-all only."""
        if len(self._rare) == self._always:
            self._add_text("--help-all", "show all flags and settings", super().format_help)
        self._rare.append(action)

    def format_help(self) -> str:
        """What --help shows: where flags are hidden, the first clause about each of the others."""
        texts = {action: action.help or "" for action in self._actions if len(self._rare) > self._always}
        for action, text in texts.items():
            default = re.search(r" \(default: [^;()]*", text)
            short = re.split(r"; | \(default: ", text)[0] + (f"{default[0]})" if default else "")
            action.help = argparse.SUPPRESS if action in self._rare else short
        try:
            return super().format_help()
        finally:
            for action, text in texts.items():
                action.help = text

    def parse_args(  # type: ignore[override]  # argparse declares overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse as argparse does; if a shell asks for completions, write them and exit."""
        if "_ARGCOMPLETE" in os.environ:
            with contextlib.suppress(ImportError):  # the extra `completion` is not installed
                import argcomplete

                argcomplete.autocomplete(self)
        return super().parse_args(args, namespace)


class _Text(argparse.Action):
    """A flag that writes a text and exits, or does nothing; the text is made only then, as it may take time."""

    def __init__(self, *, text: Callable[[], str] | None, **options: Any) -> None:
        super().__init__(**options)
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        if self._text:
            sys.stdout.write(self._text())
            parser.exit()


def program_name(command: str | None = None) -> str:
    """What the user typed to start a command: `tour search` or `python -m tour_pyserini.search`."""
    started = Path(sys.argv[0])
    if started.stem == "tour":
        program = "tour"
    elif started.name == "__main__.py" and started.parent.name == "tour_pyserini":
        program = "python -m tour_pyserini"
    else:  # the module of the command, or a program that calls its function `main`
        return f"python -m tour_pyserini.{command}" if command else "tour"
    return f"{program} {command}" if command else program
