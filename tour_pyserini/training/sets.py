"""Training and validation data as the command line names them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.files import sha256
from tour_pyserini.training.data import Example, read_examples

Source = Sequence[str]
"""Questions, and where they need them a corpus and qrels."""


def read_sources(sources: Sequence[Source]) -> list[Example]:
    """The examples of several files."""
    for source in sources:
        if not 1 <= len(source) <= 3:
            raise TourError(f"{len(source)} files came for one source of data; give questions, a corpus and qrels.")
    return [example for source in sources for example in read_examples(*source)]


def split(examples: Sequence[Example], *, share: float, most: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Training and validation examples: a share of the passages, and all questions about them, are held out.

    Args:
        examples: to be split.
        share: of the passages.
        most: validation questions at most; those beyond are not trained on either.
        seed: of the choice.
    """
    if not 0 < share < 1:
        raise TourError(f"--validation-share must lie between 0 and 1, not {share}.")
    passages = list(dict.fromkeys(example.docid for example in examples))
    held = max(1, round(share * len(passages)))
    if held == len(passages):
        raise TourError("one passage cannot be both trained on and held out; give more data, or --validation.")
    order = np.random.default_rng([seed, 17]).permutation(len(passages))
    out = {passages[place] for place in order[:held]}
    return [one for one in examples if one.docid not in out], [one for one in examples if one.docid in out][:most]


def described(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The files by name and content, for the record; what is no file, such as Pyserini's topics, by name alone."""
    return [{path: sha256(path) if Path(path).is_file() else None for path in source} for source in sources]
