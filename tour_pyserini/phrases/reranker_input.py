"""The text that a re-ranker reads for a phrase: title, context, and marks around the phrase."""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError

BEGIN, END = "[S]", "[E]"
CONTEXTS = ("1", "3", "paragraph", "passage")
_FILE_NAME = "tour-phrase-input.json"
# Full stops or similar, closing quotes or brackets, then white space that is not followed by a small letter.
_SENTENCE_END = re.compile(r"""[.!?…。！？]+["'”’»)\]]*(?:\s++(?![a-z])|$)|[。！？]["'”’»)\]]*""")
# Full stops that do not end a sentence: initials, and abbreviations before a name or a number.
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“.])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|Jr|Sr|Lt|Col|Gen|Capt|Sgt|Prof|Rev|vs|No|ca|cf)\.$"
)


@dataclass(frozen=True, kw_only=True)
class RerankerInput:
    """How the input of a re-ranker is made from a phrase.

    Attributes:
        context: `1` (the sentences that contain the phrase), `3` (one more on each side), `paragraph` (the whole
            text), or `passage` (the whole text without marks, for a re-ranker of passages).
        title: whether the input starts with the title of the passage.
        separator: the text between title and context.
    """

    context: str = "3"
    title: bool = True
    separator: str = " "

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise TourError(f"unknown context {self.context!r}; choose one of {', '.join(CONTEXTS)}.")

    def __call__(self, title: str, text: str, begin: int, end: int) -> str:
        """Make the input for the phrase `text[begin:end]`.

        Example:
            >>> RerankerInput(context="1")("Nobel Prize", "It began in 1901. Then it went on.", 12, 16)
            'Nobel Prize It began in [S] 1901 [E]. '
        """
        if self.context == "passage":
            return Passage(title if self.title else "", text)
        first, last = self.context_span(text, begin, end)
        marked = f"{text[first:begin]}{BEGIN} {text[begin:end]} {END}{text[end:last]}"
        return f"{title}{self.separator}{marked}" if self.title and title else marked

    def context_span(self, text: str, begin: int, end: int) -> tuple[int, int]:
        """Offsets of the context of the phrase `text[begin:end]`: its begin and end in the text."""
        sentences = _sentence_offsets(text)
        if self.context in ("paragraph", "passage") or not len(sentences):
            return 0, len(text)
        around = 0 if self.context == "1" else 1  # sentences on each side
        first, last = np.searchsorted(sentences[:, 0], [begin, max(begin, end - 1)], side="right") - 1
        return int(sentences[max(0, first - around), 0]), int(sentences[min(len(sentences) - 1, last + around), 1])

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write these settings to the folder of a re-ranker that was trained on such inputs."""
        (Path(folder) / _FILE_NAME).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, reranker: Any, **changes: Any) -> Self:
        """Read the settings of the inputs that a re-ranker was trained on; the default settings if its folder has none.

        Args:
            reranker: a folder; for any other object, the default settings are used.
            changes: fields to replace; None leaves a field unchanged.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        path = Path(reranker) / _FILE_NAME if isinstance(reranker, str | os.PathLike) else None
        trained = read_json_object(path) if path is not None and path.is_file() else {}
        return cls(**{**trained, **given})


def _sentence_offsets(text: str) -> NDArray[np.int64]:
    """Find where sentences begin and end: [s, 2], in characters; together they cover the text.

    White space belongs to the sentence before it. A text without a boundary is one sentence, an empty text has none.
    """
    ends = [
        match.end()
        for match in _SENTENCE_END.finditer(text)
        if match.group().strip() != "." or not _ABBREVIATION.search(text[max(0, match.start() - 6) : match.start() + 1])
    ]
    if text and (not ends or ends[-1] < len(text)):
        ends.append(len(text))
    return np.array([*zip([0, *ends], ends, strict=False)], dtype=np.int64).reshape(-1, 2)
