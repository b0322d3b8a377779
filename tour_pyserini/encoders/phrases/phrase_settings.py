"""What a phrase encoder's folder says about itself beside its weights."""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path

from tour_pyserini.errors import TourError, first_line

FILE = "tour-phrase-encoder.json"
POOLING = ("cls", "mean")


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How questions and passages are read; the defaults are those of DensePhrases' published checkpoints.

    Attributes:
        pooling: what of a query encoder's output is the question's vector: the first token's, or the mean of all.
        strip_question_mark: whether a question loses the mark at its end.
        lower_case: whether questions are put in lower case (passages are what their tokenizer makes of them).
        max_query_length: tokens of a question.
        max_length: tokens of a passage with its title that are read at once.
        stride: tokens that two stretches of a longer passage share.
        filter_threshold: logits of the filter above which a token is kept.
    """

    pooling: str = "cls"
    strip_question_mark: bool = True
    lower_case: bool = False
    max_query_length: int = 64
    max_length: int = 384
    stride: int = 128
    filter_threshold: float = -2.0

    def __post_init__(self) -> None:
        if self.pooling not in POOLING:
            raise TourError(f"a phrase encoder's pooling is {' or '.join(POOLING)}, not {self.pooling!r}.")
        if self.max_length < 16 or self.max_query_length < 4 or not 0 <= self.stride <= self.max_length // 2:
            raise TourError(
                f"a phrase encoder cannot read {self.max_length} tokens with a stride of {self.stride} and questions "
                f"of {self.max_query_length}; give at least 16, at most half of them, and at least 4."
            )

    def question(self, text: str) -> str:
        """A question as the query encoders read it.

        Example:
            >>> EncoderSettings(lower_case=True).question("Who wrote Hamlet ?")
            'who wrote hamlet'
        """
        text = text.strip()
        if self.strip_question_mark:
            text = text.removesuffix("?").rstrip()
        return text.lower() if self.lower_case else text

    def save(self, folder: Path) -> None:
        """Write them beside the weights."""
        values = dataclasses.asdict(self)
        if math.isinf(self.filter_threshold):
            values["filter_threshold"] = None  # JSON has no infinity
        (folder / FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def read_encoder_settings(folder: Path) -> EncoderSettings:
    """The settings in a folder; DensePhrases' own where it has none."""
    path = folder / FILE
    if not path.is_file():
        return EncoderSettings()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.get("filter_threshold", 0) is None:
            values["filter_threshold"] = -math.inf
        return EncoderSettings(**values)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TourError(f"{path} does not describe a phrase encoder ({first_line(error)}).") from error
