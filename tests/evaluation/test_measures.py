import re

import numpy as np
import pytest
from ir_measures import Qrel

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Scorer, compare

QRELS = [Qrel("q1", "a", 1)]


@pytest.mark.parametrize("name", ["nDCG@0", "R@0", "nDCG(cutoff=0)", "nDCG@1.5", "P(rel=0)@5", "IPrec@2", "Wonder@3"])
def test_an_invalid_measure_is_named(name):
    # With a cutoff of 0 pytrec_eval would abort the interpreter later, in `values`.
    with pytest.raises(TourError, match=re.escape(name)):
        Scorer(["nDCG@10", name], QRELS)
    assert Scorer(["nDCG@1", "RR", "IPrec@0.0"], QRELS).measures == ["nDCG@1", "RR", "IPrec@0.0"]


@pytest.fixture
def compared(tmp_path):
    """Runs with hits for some of five judged queries, measured."""
    queries = [f"q{number}" for number in range(5)]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 a 1\n" for query in queries))
    for name, kept in {"all": queries, "some": [*queries[1:3], "q9"]}.items():
        (tmp_path / name).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in kept))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "all").write_text((tmp_path / "all").read_text())
    return lambda *runs, measure="RR": compare(tmp_path / "qrels", [tmp_path / run for run in runs], [measure])


def test_a_query_without_hits_counts_as_0_with_a_warning_and_equal_names_become_paths(compared, caplog):
    every, some = compared("all", "some")
    assert [message.partition("has hits for ")[2][:6] for message in caplog.messages] == ["2 of t"]
    assert every.answered.all()
    assert np.array_equal(some.answered, [False, True, True, False, False])  # q9 is not judged
    assert some.means == {"RR": 2 / 5} and some.values["RR"].tolist() == [0, 1, 1, 0, 0]
    assert compared("all", measure="NumRet")[0].means["NumRet"] == 5  # counts are summed
    one, other, some = compared("all", "folder/all", "some")
    assert one.name == str(one.path) and other.name == str(other.path) and some.name == "some"
