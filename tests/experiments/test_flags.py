import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import expanded, words


def test_flags_become_words():
    assert words({"method": "rerank", "depth": 30, "pq": True, "early-stopping": False, "score-weight": 0.5}) == [
        *("--method", "rerank", "--depth", "30", "--pq", "--no-early-stopping", "--score-weight", "0.5")
    ]


def test_variables_are_expanded_or_named():
    assert expanded("${DATA}/a/$$5", {"DATA": "here"}) == "here/a/$5"
    with pytest.raises(TourError, match="variable DATA; give --data DIR"):
        expanded("${DATA}/a", {})
    with pytest.raises(TourError, match="variable MODELS; set it in the environment"):
        expanded("${MODELS}/a", {})
    with pytest.raises(TourError, match=r"begins no \$\{VARIABLE\}"):
        expanded("a$", {})
