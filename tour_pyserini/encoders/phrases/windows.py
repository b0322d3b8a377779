"""Passages as the phrase encoder reads them: title and text as a pair, long texts in stretches that overlap."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.support.batching import Row

TITLE_SHARE = 4  # a title takes at most a quarter of the tokens


class Window(NamedTuple):
    """A stretch of a passage.

    Attributes:
        passage: which of the passages it is from.
        inputs: the model's inputs by name.
        tokens: [k] positions of the tokens that are taken from this stretch.
        offsets: [k, 2] where they begin and end in the passage's text.
    """

    passage: int
    inputs: Row
    tokens: np.ndarray
    offsets: np.ndarray


def windows_of(passages: Sequence[tuple[str, str]], tokenizer: Any, settings: EncoderSettings) -> list[Window]:
    """The stretches of passages, given as title and text, in order; every token of a text is taken from one of them.

    Of the tokens that two stretches share, each gives those that stand nearer to its middle.
    """
    titles = [_cut(title, tokenizer, settings.max_length // TITLE_SHARE) for title, _ in passages]
    coded = tokenizer(
        titles,
        [text for _, text in passages],
        truncation="only_second",
        max_length=settings.max_length,
        stride=settings.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    names = [name for name in tokenizer.model_input_names if name in coded]
    owners = coded["overflow_to_sample_mapping"]
    result = []
    for at, owner in enumerate(owners):
        ours = np.array([sequence == 1 for sequence in coded.sequence_ids(at)])
        tokens = np.flatnonzero(ours)
        first = settings.stride // 2 if at and owners[at - 1] == owner else 0
        last = settings.stride - settings.stride // 2 if at + 1 < len(owners) and owners[at + 1] == owner else 0
        tokens = tokens[first : len(tokens) - last]
        offsets = np.array(coded["offset_mapping"][at], dtype=np.int64).reshape(-1, 2)[tokens]
        result.append(Window(owner, {name: coded[name][at] for name in names}, tokens, offsets))
    return result


def _cut(title: str, tokenizer: Any, room: int) -> str:
    """A title that leaves room for the text."""
    if len(title.encode()) < room:  # no tokenizer makes more tokens than bytes, but for one it puts in front
        return title
    offsets = tokenizer(title, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return title[: offsets[room - 1][1]] if len(offsets) > room else title
