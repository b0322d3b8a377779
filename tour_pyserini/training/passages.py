"""Training passages: what the encoder reads, which tokens may begin and end phrases, and the questions about them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.phrase_encoders.settings import EncoderSettings
from tour_pyserini.phrase_encoders.windows import Window, windows_of
from tour_pyserini.phrases.rows import ENDS, STARTS, token_rows
from tour_pyserini.training.answers import answer_spans
from tour_pyserini.training.data import Example


class TrainingPassage(NamedTuple):
    """A stretch of a passage that holds answers.

    Attributes:
        inputs: the model's inputs by name.
        begins: characters at which phrases may begin, and the token of each.
        ends: characters at which phrases may end, and the token of each.
        text: the passage's text.
        questions: the questions whose answers are in this stretch, with these answers.
    """

    inputs: Any
    begins: dict[int, int]
    ends: dict[int, int]
    text: str
    questions: list[tuple[str, Sequence[str]]]

    def gold(self, answers: Sequence[str]) -> tuple[list[int], list[int]]:
        """The tokens at which answers begin and those at which they end, as far as both are in this stretch."""
        spans = [(b, e) for b, e in answer_spans(self.text, answers) if b in self.begins and e in self.ends]
        return sorted({self.begins[b] for b, _ in spans}), sorted({self.ends[e] for _, e in spans})


def training_passages(examples: Sequence[Example], tokenizer: Any, settings: EncoderSettings) -> list[TrainingPassage]:
    """The examples by passage: a passage is encoded once for all questions about it.

    Of a passage that is read in several stretches, each is a passage of its own; a stretch without an answer is left
    out, and a question belongs to the first stretch that holds an answer. An answer cut by two stretches is in none.
    """
    by_passage: dict[str, list[Example]] = {}
    for example in examples:
        by_passage.setdefault(example.docid, []).append(example)
    groups = list(by_passage.values())
    windows = windows_of([(group[0].title, group[0].text) for group in groups], tokenizer, settings)
    found, placed = [], set()
    for window in windows:
        group = groups[window.passage]
        passage = _passage(window, group[0].text)
        for place, example in enumerate(group):
            if (window.passage, place) not in placed and passage.gold(example.answers)[0]:
                placed.add((window.passage, place))
                passage.questions.append((example.question, example.answers))
        if passage.questions:
            found.append(passage)
    return found


def _passage(window: Window, text: str) -> TrainingPassage:
    rows, tokens = token_rows(text, window.offsets)
    places, (first, last) = window.tokens[tokens], window.offsets[tokens].T
    # At the edge of a stretch a word may be cut, and what is left of it neither begins nor ends it.
    inner = np.arange(len(rows))
    starts = np.flatnonzero((rows["roles"] & STARTS > 0) & ((first <= rows["begin"]) | (inner > 0)))
    ends = np.flatnonzero((rows["roles"] & ENDS > 0) & ((last >= rows["end"]) | (inner < len(rows) - 1)))
    return TrainingPassage(
        window.inputs,
        dict(zip(rows["begin"][starts].tolist(), places[starts].tolist(), strict=True)),
        dict(zip(rows["end"][ends].tolist(), places[ends].tolist(), strict=True)),
        text,
        [],
    )
