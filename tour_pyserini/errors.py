"""The one exception a user meets."""


class TourError(ValueError):
    """Something the user gave cannot be used.

    The message is one sentence that names the file, line or id at fault and what to do about it. Commands
    print it and leave with exit code 2; nothing is written.
    """


def first_line(error: Exception) -> str:
    """What a foreign exception says, short enough to stand in a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
