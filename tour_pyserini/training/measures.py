"""Exact match and F1 of predicted answers, as means."""

from collections.abc import Sequence

import numpy as np

from tour_pyserini.evaluation.exact_match import MEASURES


def answer_means(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean of each measure over questions: `EM`, then `F1`.

    Example:
        >>> answer_means(["The Beatles", "1902"], [["Beatles"], ["1901"]])
        {'EM': 0.5, 'F1': 0.5}
    """
    pairs = list(zip(predicted, answers, strict=True))
    return {name: float(np.mean([measure(*pair) for pair in pairs])) for name, measure in MEASURES.items()}
