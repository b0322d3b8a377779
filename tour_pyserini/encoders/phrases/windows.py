"""Inputs of the phrase encoder: title and text as a pair; a long text is split into overlapping windows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.support.tokens import Row

TITLE_SHARE = 4  # a title takes at most a quarter of the tokens


class Window(NamedTuple):
    """A part of a passage that the model reads at once.

    Attributes:
        passage: position of the passage in the list of passages.
        inputs: the model's inputs by name.
        tokens: [k] positions, in the inputs, of the tokens whose vectors are taken from this window.
        offsets: [k, 2] begin and end of these tokens in the passage's text, in characters.
    """

    passage: int
    inputs: Row
    tokens: np.ndarray
    offsets: np.ndarray


def windows_of(passages: Sequence[tuple[str, str]], tokenizer: Any, settings: EncoderSettings) -> list[Window]:
    """Split passages, given as (title, text), into windows; each token of a text is taken from exactly one window.

    Of the tokens that two neighbouring windows share, each window gives the half that is nearer to its middle.
    """
    titles = [_truncated(title, tokenizer, settings.max_length // TITLE_SHARE) for title, _ in passages]
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
    windows = []
    for i, owner in enumerate(owners):
        tokens = np.flatnonzero([sequence == 1 for sequence in coded.sequence_ids(i)])
        skipped_first = settings.stride // 2 if i and owners[i - 1] == owner else 0
        has_next = i + 1 < len(owners) and owners[i + 1] == owner
        skipped_last = settings.stride - settings.stride // 2 if has_next else 0
        tokens = tokens[skipped_first : len(tokens) - skipped_last]
        offsets = np.array(coded["offset_mapping"][i], dtype=np.int64).reshape(-1, 2)[tokens]
        windows.append(Window(owner, {name: coded[name][i] for name in names}, tokens, offsets))
    return windows


def _truncated(title: str, tokenizer: Any, limit: int) -> str:
    """The beginning of a title that has at most `limit` tokens."""
    if len(title.encode()) < limit:  # a tokenizer makes at most one token per byte, and may put one in front
        return title
    offsets = tokenizer(title, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return title[: offsets[limit - 1][1]] if len(offsets) > limit else title
