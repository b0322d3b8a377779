"""Settings of a phrase encoder, which a JSON file in its folder stores."""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.errors import TourError, first_line

FILE = "tour-phrase-encoder.json"
POOLING = ("cls", "mean")


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How a phrase encoder reads questions and passages; the defaults are those of DensePhrases' published checkpoints.

    Attributes:
        pooling: how token vectors of a question become one vector: `cls` (the first one) or `mean` (of all).
        strip_question_mark: whether the question mark at the end of a question is removed.
        lower_case: whether questions are converted to lower case (for passages this is left to the tokenizer).
        max_query_length: tokens of a question that are read.
        max_length: tokens of a window: title, text and special tokens.
        stride: tokens of the text that two neighbouring windows of a long passage share.
        filter_threshold: the filter keeps a token if its logit is above this number.
    """

    pooling: str = "cls"
    strip_question_mark: bool = True
    lower_case: bool = False
    max_query_length: int = 64
    max_length: int = 384
    stride: int = 128
    filter_threshold: float = -2.0

    def __post_init__(self) -> None:
        sizes = (self.max_query_length, self.max_length, self.stride, self.filter_threshold)
        if not all(isinstance(size, int | float) and not isinstance(size, bool) for size in sizes):
            raise TourError("a phrase encoder's lengths and its threshold must be numbers.")
        if self.pooling not in POOLING:
            raise TourError(f"a phrase encoder's pooling is {' or '.join(POOLING)}, not {self.pooling!r}.")
        if self.max_length < 16 or self.max_query_length < 4 or not 0 <= self.stride <= self.max_length // 2:
            raise TourError(
                f"max_length {self.max_length}, stride {self.stride}, max_query_length {self.max_query_length} are not "
                "allowed: max_length must be at least 16, stride at most half of it, max_query_length at least 4."
            )

    def question(self, text: str) -> str:
        """Prepare the text of a question for the query encoders.

        Example:
            >>> EncoderSettings(lower_case=True).question("Who wrote Hamlet ?")
            'who wrote hamlet'
        """
        text = text.strip()
        if self.strip_question_mark:
            text = text.removesuffix("?").rstrip()
        return text.lower() if self.lower_case else text

    def save(self, folder: Path) -> None:
        """Write the settings to a model folder."""
        values = dataclasses.asdict(self)
        if math.isinf(self.filter_threshold):
            values["filter_threshold"] = None  # JSON has no infinity
        (folder / FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def read_encoder_settings(folder: Path) -> EncoderSettings:
    """Read the settings in a model folder; without a settings file, the defaults of DensePhrases."""
    path = folder / FILE
    if not path.is_file():
        return EncoderSettings()
    try:
        values = read_json_object(path)
        if values.get("filter_threshold", 0) is None:
            values["filter_threshold"] = -math.inf
        return EncoderSettings(**values)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TourError(f"{path} does not describe a phrase encoder ({first_line(error)}).") from error
