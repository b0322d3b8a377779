"""Real questions and passages of many lengths."""

import json
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.flops import token_counts
from benchmarks.searching import NQ
from benchmarks.setting import Setting
from tour_pyserini.data.texts import open_texts

SHORTEST, LONGEST, BINS = 40, 250, 7
DRAWN = 16  # pairs to choose each one from


class Pairs(NamedTuple):
    """(question, passage) pairs and how many tokens each has."""

    texts: list[tuple[str, str]]
    lengths: list[int]


@lru_cache
def mixed_pairs(setting: Setting) -> Pairs:
    """NQ questions with passages drawn at random, spread as evenly over 40 to 250 tokens as the passages allow."""
    random = np.random.default_rng(0)
    texts = open_texts(setting.corpus(NQ[0]))
    docids = random.permutation(list(texts))[: DRAWN * setting.pairs].tolist()
    lines = setting.topics(*NQ).queries.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines]
    drawn = [(questions[place % len(questions)], texts[docid]) for place, docid in enumerate(docids)]
    lengths = np.array(token_counts(setting.model, drawn))
    # In turn from the rarest lengths on: bins that run out leave their share to the others.
    bins = np.digitize(lengths, np.linspace(SHORTEST, LONGEST + 1, BINS + 1))
    waiting = sorted((np.flatnonzero(bins == number).tolist() for number in range(1, BINS + 1)), key=len)
    chosen: list[int] = []
    for left, group in zip(range(BINS, 0, -1), waiting, strict=True):
        chosen += group[: (setting.pairs - len(chosen)) // left]
    chosen = sorted(chosen)  # lengths mixed, as they come
    return Pairs([drawn[place] for place in chosen], lengths[chosen].tolist())
