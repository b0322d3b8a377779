import pytest
from ir_measures import Qrel

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Scorer

QRELS = [Qrel("q1", "a", 1)]


@pytest.mark.parametrize("name", ["nDCG@0", "R@0", "P@0", "AP@0", "Success@0", "RR@0", "Judged@0", "nDCG(cutoff=0)"])
def test_a_cutoff_below_1_is_refused(name):
    # Only parsing is tested here: with such a cutoff pytrec_eval aborts the interpreter later, in `values`.
    with pytest.raises(TourError) as refused:
        Scorer(["nDCG@10", name], QRELS)
    assert str(refused.value).endswith(f": the cutoff of {name} must be at least 1.")


@pytest.mark.parametrize("name", ["nDCG@1.5", "P(rel=0)@5", "IPrec@2", "Wonder@3"])
def test_an_invalid_measure_is_named(name):
    with pytest.raises(TourError, match="cannot compute the measures") as refused:
        Scorer([name], QRELS)
    assert name in str(refused.value)


@pytest.mark.parametrize("name", ["nDCG@1", "R@1", "RR", "IPrec@0.0"])
def test_the_smallest_cutoff_and_no_cutoff_are_accepted(name):
    assert Scorer([name], QRELS).measures == [name]
