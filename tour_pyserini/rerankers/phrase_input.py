"""What a re-ranker reads of a phrase: title, context, and marks around the phrase."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tour_pyserini.data.documents import Passage
from tour_pyserini.data.text_spans import around
from tour_pyserini.errors import TourError, first_line

BEGIN, END = "[S]", "[E]"
CONTEXTS = ("1", "3", "paragraph", "passage")
FILE = "tour-phrase-input.json"


@dataclass(frozen=True, kw_only=True)
class PhraseInput:
    """How a phrase is shown to a re-ranker.

    Attributes:
        context: `1` (the sentences the phrase stands in), `3` (one more on each side), `paragraph` (all of the text),
            or `passage` (all of it without marks, as a re-ranker of passages reads it).
        title: whether the passage's title comes first.
        separator: what stands between title and text.
    """

    context: str = "3"
    title: bool = True
    separator: str = " "

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise TourError(f"there is no context {self.context!r}; choose one of {', '.join(CONTEXTS)}.")

    def __call__(self, title: str, text: str, begin: int, end: int) -> str:
        """The input for `text[begin:end]`.

        Example:
            >>> PhraseInput(context="1")("Nobel Prize", "It began in 1901. Then it went on.", 12, 16)
            'Nobel Prize It began in [S] 1901 [E]. '
        """
        if self.context == "passage":
            return Passage(title if self.title else "", text)
        marked = self._marked(text, begin, end)
        return f"{title}{self.separator}{marked}" if self.title and title else marked

    def stretch(self, text: str, begin: int, end: int) -> tuple[int, int]:
        """The part of the text that is shown for `text[begin:end]`: where it begins and ends."""
        if self.context in ("paragraph", "passage"):
            return 0, len(text)
        return around(text, begin, end, sides=0 if self.context == "1" else 1)

    def _marked(self, text: str, begin: int, end: int) -> str:
        first, last = self.stretch(text, begin, end)
        return f"{text[first:begin]}{BEGIN} {text[begin:end]} {END}{text[end:last]}"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it beside a re-ranker that was trained on such inputs."""
        (Path(folder) / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read_phrase_input(folder: Any, **changes: Any) -> PhraseInput:
    """The inputs that a re-ranker was trained on, where its folder says so, else the default's.

    Args:
        folder: a re-ranker's folder; anything else says nothing.
        changes: fields to have otherwise; None leaves a field as it is.
    """
    told: Mapping[str, Any] = {}
    path = Path(folder) / FILE if isinstance(folder, str | os.PathLike) else None
    if path is not None and path.is_file():
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            PhraseInput(**told)
        except (OSError, ValueError, TypeError) as error:
            raise TourError(f"{path} does not say what a re-ranker reads ({first_line(error)}); remove it.") from error
    return PhraseInput(**{**told, **{name: value for name, value in changes.items() if value is not None}})
