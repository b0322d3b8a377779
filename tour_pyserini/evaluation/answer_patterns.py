r"""Answers that are regular expressions, matched in bounded time.

Python's engine tries all ways to match, which takes years for `(a+)+$` and a text of forty letters. RE2 needs time that
is linear in the text. It has another syntax, and its classes such as `\d` know ASCII only. So a pattern is parsed by
Python, whose meaning counts, and written for RE2 from its parts. What RE2 cannot express, and classes on other texts
than ASCII, are matched by Python with a time limit: at once in the main thread of a process, also of a worker of
`answers --processes`; in any other thread, which cannot be interrupted, by a new process for each match, which takes
some 20 ms more. (The package `regex` has time limits too, but takes accents of
normal form D for letters.)
"""

import json
import re
import signal
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from re import _constants as parts  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from tour_pyserini.errors import TourError

SECONDS = 5.0
"""Time limit of a match by Python's engine, in seconds of processor time."""

# SIGVTALRM ends a process that does not handle it.
_PROGRAM = """
import json, re, signal, sys
pattern, flags, how, text, seconds = json.load(sys.stdin)
signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
print(getattr(re.compile(pattern, flags), how)(text) is not None, end="")
"""
_FLAGS = re.IGNORECASE | re.MULTILINE
_MOST_REPEATS = 1000  # RE2's limit
_POSITIONS = {
    parts.AT_BEGINNING: "^",
    parts.AT_BEGINNING_STRING: r"\A",
    parts.AT_END: "$",
    parts.AT_END_STRING: r"\z",
    parts.AT_BOUNDARY: r"\b",
}
# The ASCII characters of a class. Others are left out: ignoring case, a Kelvin sign in a class would match `k`.
_CLASSES = {
    parts.CATEGORY_DIGIT: "0-9",
    parts.CATEGORY_NOT_DIGIT: r"\x00-/:-\x7f",
    parts.CATEGORY_WORD: "0-9A-Z_a-z",
    parts.CATEGORY_NOT_WORD: r"\x00-/:-@\[-\^`{-\x7f",
    parts.CATEGORY_SPACE: r"\t-\r\x1c- ",
    parts.CATEGORY_NOT_SPACE: r"\x00-\x08\x0e-\x1b!-\x7f",
}


class AnswerPattern:
    """A regular expression in Unicode normal form D; case is ignored, and `^` and `$` are ends of lines."""

    def __init__(self, answer: str) -> None:
        """Compile the pattern.

        Raises:
            ValueError: if it is not a valid regular expression.
        """
        self.answer = answer
        pattern = unicodedata.normalize("NFD", answer)
        try:
            self._python = re.compile(pattern, _FLAGS)
            self._linear, self._ascii_only = _linear(parser.parse(pattern, _FLAGS))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from error

    def search(self, text: str) -> bool:
        """Whether it matches anywhere in a text."""
        return self._found("search", text)

    def match(self, text: str) -> bool:
        """Whether it matches at the beginning of a text."""
        return self._found("match", text)

    def _found(self, how: str, text: str) -> bool:
        if self._linear is not None and (not self._ascii_only or text.isascii()):
            try:
                return getattr(self._linear, how)(text) is not None
            except UnicodeEncodeError:  # half a surrogate pair
                pass
        try:
            if threading.current_thread() is not threading.main_thread():
                return _found_by_process(self._python, how, text)
            with _time_limit():
                return getattr(self._python, how)(text) is not None
        except _OutOfTime:
            raise TourError(
                f"the regular expression {self.answer!r:.200} took more than {SECONDS:g} s on one text; "
                "write it without repeats inside repeats, or use --regex off."
            ) from None


class _OutOfTime(Exception):
    """The time limit of a match."""


@contextmanager
def _time_limit() -> Iterator[None]:
    """End the block after `SECONDS`; in the main thread of a process, which alone can be interrupted."""

    def stop(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)  # Python's engine looks for signals while it matches
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _found_by_process(pattern: re.Pattern[str], how: str, text: str) -> bool:
    """Match in a process of its own, which ends after `SECONDS`."""
    match = json.dumps([pattern.pattern, pattern.flags, how, text, SECONDS])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROGRAM], input=match, text=True, capture_output=True, check=False
    )
    if done.returncode == -signal.SIGVTALRM:
        raise _OutOfTime
    done.check_returncode()
    return done.stdout == "True"


def _linear(parsed: Any) -> tuple[Any, bool]:
    """The pattern compiled by RE2, and whether it is right for ASCII texts only; None where RE2 cannot express it."""
    import re2

    if parsed.state.flags & ~(_FLAGS | re.UNICODE):
        return None, False
    writer = _Writer()
    options = re2.Options()
    options.case_sensitive, options.log_errors = False, False
    try:
        return re2.compile(f"(?m){writer.written(parsed)}", options), writer.ascii_only
    except (_CannotExpress, re2.error, UnicodeEncodeError):
        return None, False


class _CannotExpress(Exception):
    """RE2 has no such construct."""


class _Writer:
    """Writes a pattern that Python has parsed in RE2's syntax."""

    def __init__(self) -> None:
        self.ascii_only = False

    def written(self, parsed: Any) -> str:
        return "".join(self._part(kind, value) for kind, value in parsed)

    def _part(self, kind: Any, value: Any) -> str:
        if kind is parts.LITERAL:
            return _character(value)
        if kind is parts.NOT_LITERAL:
            return f"[^{_character(value)}]"
        if kind is parts.ANY:
            return "."
        if kind is parts.IN:
            return f"[{''.join(self._member(*member) for member in value)}]"
        if kind is parts.BRANCH:
            return f"(?:{'|'.join(self.written(branch) for branch in value[1])})"
        if kind is parts.SUBPATTERN and not value[1] and not value[2]:
            return f"(?:{self.written(value[3])})"
        if kind in (parts.MAX_REPEAT, parts.MIN_REPEAT):  # both match the same texts
            least, most, repeated = value
            limit = "" if most is parts.MAXREPEAT else str(int(most))
            if max(int(least), int(limit or 0)) > _MOST_REPEATS:
                raise _CannotExpress
            return f"(?:{self.written(repeated)}){{{int(least)},{limit}}}"
        if kind is parts.AT and value in _POSITIONS:
            self.ascii_only |= value is parts.AT_BOUNDARY
            return _POSITIONS[value]
        raise _CannotExpress

    def _member(self, kind: Any, value: Any) -> str:
        """A member of a set of characters."""
        if kind is parts.NEGATE:
            return "^"
        if kind is parts.LITERAL:
            return _character(value)
        if kind is parts.RANGE:
            return f"{_character(value[0])}-{_character(value[1])}"
        if kind is parts.CATEGORY and value in _CLASSES:
            self.ascii_only = True
            return _CLASSES[value]
        raise _CannotExpress


def _character(number: int) -> str:
    return f"\\x{{{number:x}}}"
