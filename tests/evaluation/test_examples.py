import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import Qrel

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.runs import read_rankings, read_run
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.examples import examples
from tour_pyserini.evaluation.measures import Scorer, measure_runs

QUERIES = {f"q{at}": f"question {at}" for at in range(1, 5)}
TEXTS = {"a": "an  apple\nfalls " + "far " * 50, "b": "a ball", "c": "a cat"}


@pytest.fixture
def runs_and_qrels(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\nq2 0 x 2\nq3 0 c 1\nq3 0 a 0\nq4 0 a 1\n")
    (tmp_path / "base").write_text(
        "q1 Q0 b 1 3.0 t\nq1 Q0 a 2 2.0 t\nq2 Q0 b 1 3.0 t\nq3 Q0 c 1 3.0 t\nq3 Q0 a 2 2.0 t\n"
        "q4 Q0 b 1 3.0 t\nq4 Q0 c 2 2.0 t\nq4 Q0 a 3 1.0 t\n"
    )
    (tmp_path / "run").write_text(
        "q1 Q0 a 1 3.0 t\nq1 Q0 b 2 2.0 t\nq3 Q0 a 1 3.0 t\nq3 Q0 c 2 2.0 t\nq4 Q0 a 3 1.0 t\n"
    )
    qrels = read_qrels(tmp_path / "qrels")
    return *measure_runs(Scorer(["RR"], qrels), [tmp_path / "base", tmp_path / "run"]), qrels


def show(runs_and_qrels, shown=1, queries=QUERIES):
    baseline, other, qrels = runs_and_qrels
    return examples(baseline, [other], qrels, shown=shown, queries=queries, texts=TEXTS)


def test_the_largest_gain_and_the_largest_loss(runs_and_qrels):
    apple = ("an apple falls " + "far " * 50)[:157].rstrip() + "..."
    assert show(runs_and_qrels).splitlines() == [
        "rescued by run against base (RR): 1 shown",
        "",
        "+0.6667  q4  question 4",
        "    relevant, by rank: a 3 -> 1",
        "    before    b  a ball",
        f"    after   * a  {apple}",
        "",
        "lost by run against base (RR): 1 shown",
        "",
        "-1.0000  q2  question 2",
        "    relevant, by rank: b 1 -> -, x - -> -",
        "    before  * b  a ball",
        "    after     no hits",
    ]


def test_only_gains_are_rescued_and_only_losses_lost(runs_and_qrels):
    lines = show(runs_and_qrels, shown=9).splitlines()
    heads = [line.split()[:2] for line in lines if line.startswith(("+", "-", "rescued", "lost"))]
    assert heads == [
        ["rescued", "by"],
        ["+0.6667", "q4"],
        ["+0.5000", "q1"],
        ["lost", "by"],
        ["-1.0000", "q2"],
        ["-0.5000", "q3"],
    ]


def test_a_query_missing_from_the_topics_is_refused(runs_and_qrels):
    with pytest.raises(TourError, match="query 'q2' is judged but not in the topics"):
        show(runs_and_qrels, queries={"q4": "question 4"})


def test_relevant_documents_beyond_the_eighth_are_counted(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"q1 0 d{at} 1\n" for at in range(20)))
    (tmp_path / "base").write_text("q1 Q0 b 1 1.0 t\n")
    (tmp_path / "run").write_text("q1 Q0 d17 1 1.0 t\n")
    qrels = read_qrels(tmp_path / "qrels")
    base, run = measure_runs(Scorer(["RR"], qrels), [tmp_path / "base", tmp_path / "run"])
    shown = examples(base, [run], qrels, shown=1, queries=QUERIES, texts={"b": "b", "d17": "d"})
    assert "by rank: d17 - -> 1, d0 - -> -, " in shown
    assert "and 12 more\n" in shown


def test_equal_scores_are_ranked_as_they_are_evaluated(tmp_path):
    (tmp_path / "run").write_text("q1 Q0 a 1 1.0 t\nq1 Q0 b 2 1.0 t\nq1 Q0 c 3 2.0 t\nq2 Q0 a 1 1.0 t\n")
    assert read_rankings(tmp_path / "run", {"q1", "q3"}) == {"q1": ["c", "b", "a"], "q3": []}
    (tmp_path / "qrels").write_text("q1 0 b 1\n")
    (row,) = measure_runs(Scorer(["RR"], read_qrels(tmp_path / "qrels")), [tmp_path / "run"])
    assert row.means["RR"] == 1 / 2


# Neighbours of 1 and 2 that are equal in single precision, and some that are not.
SCORES = st.sampled_from([1.0, 1 + 1e-9, 1 - 1e-9, 1 + 1e-6, 2.0, 2 + 1e-8, -1.0, -1 - 1e-9, 1e39, 2e39])


@given(st.lists(SCORES, min_size=1, max_size=12))
def test_a_rank_is_the_one_that_was_measured(tmp_path_factory, scores):
    run = tmp_path_factory.mktemp("ranks") / "run"
    run.write_text("".join(f"q1 Q0 d{at} 1 {score!r} t\n" for at, score in enumerate(scores)))
    (ranking,) = read_rankings(run, {"q1"}).values()
    for rank, docid in enumerate(ranking, start=1):
        values = Scorer(["RR"], [Qrel("q1", docid, 1)]).values(read_run(run))
        assert values["RR"] == pytest.approx([1 / rank])


def test_what_is_shown_is_what_was_measured(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\n")
    (tmp_path / "base").write_text("q1 Q0 a 1 1.0 t\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 1.000000001 t\nq1 Q0 b 2 1.0 t\n")
    qrels = read_qrels(tmp_path / "qrels")
    base, run = measure_runs(Scorer(["RR"], qrels), [tmp_path / "base", tmp_path / "run"])
    assert "-0.5000  q1  question 1\n    relevant, by rank: a 1 -> 2\n" in show((base, run, qrels))
