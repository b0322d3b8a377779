"""The exception a user meets."""

_LONGEST = 600
_BEGIN, _END = 340, 240
_CONTROL = dict.fromkeys([*range(32), *range(127, 160)], "?")


class TourError(ValueError):
    """Something the user gave cannot be used.

    The message is one sentence that names the file, line or id at fault and what to do about it. Commands
    print it and leave with exit code 2; nothing is written. A message that quotes too much of a file is
    shortened in its middle, and is always one line without control characters, which could command a terminal.
    """

    def __init__(self, message: object) -> None:
        text = " ".join(str(message).splitlines()).translate(_CONTROL)
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_BEGIN]} ... {text[-_END:]}")


class RequestError(TourError):
    """What was asked for is to blame, and nothing that is read to answer it: a service tells it whoever asked."""


def first_line(error: BaseException) -> str:
    """What a foreign exception says, short enough to stand in a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
