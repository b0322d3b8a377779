"""Rocchio and average: by hand."""

import numpy as np
import pytest
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig

VECTORS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0], [0.0, 0.0, 0.1]])
QUERY = np.array([[1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (TourConfig("average", depth=2), [12 / 3, 14 / 3, 17 / 3]),
        (TourConfig("average", depth=2, iterations=0), [1, 1, 1]),
        (
            TourConfig("rocchio", depth=3, positives=1, rocchio_alpha=0.5, rocchio_beta=1, rocchio_gamma=2),
            [0.5 + 7 - 2 * 2.5, 0.5 + 8 - 2 * 3.5, 0.5 + 10 - 2 * 4.5],
        ),
        # No candidate is left to move away from.
        (TourConfig("rocchio", depth=2, positives=5), [0.9 + 0.1 * 5.5, 0.9 + 0.1 * 6.5, 0.9 + 0.1 * 8]),
    ],
    ids=str,
)
def test_by_hand(config, expected):
    corpus = MemoryCorpus(VECTORS, np.zeros((1, 4)))
    (task,) = corpus.run(QUERY, config, hits=2)
    assert task.outcome.vector == pytest.approx(expected)
    assert task.outcome.ranking.ids[:2].tolist() == np.argsort(-(VECTORS @ expected))[:2].tolist()
    assert not corpus.labelled
