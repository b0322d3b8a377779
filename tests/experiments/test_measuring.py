"""Measured runs and expected scores; the runs stored with the project have theirs, and count as current."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_experiment import definition, read

from tour_pyserini.core import method as registry
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import METHODS
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import find_experiment, packaged, read_experiment
from tour_pyserini.experiments.measuring import measure, scorers_of, verdicts
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.experiments.running import Archive, steps

RUNS = Path(__file__).resolve().parents[2] / "runs"
LARGE = {"nq-test", "nq-dev", "scifact", "scifact-train"}


def stored_setups(name):
    """The setups of an experiment whose runs are stored."""
    experiment = read_experiment(find_experiment(name))
    return [setup for setup in experiment.setups() if (RUNS / name / f"{setup.name}.runs.xz").is_file()]


STORED = [(name, setup) for name in packaged() for setup in stored_setups(name)]
SLOW = {True: [pytest.mark.slow], False: []}
CASES = [pytest.param(*one, id=f"{one[0]}: {one[1].name}", marks=SLOW[one[1].collection in LARGE]) for one in STORED]


@pytest.mark.parametrize(("name", "setup"), CASES)
def test_stored_runs_have_the_expected_scores(name, setup, shared):
    experiment = read_experiment(find_experiment(name))
    at = Workspace(experiment, RUNS / name, RUNS / "none", data=str(shared))
    results = measure(at, [setup], scorers_of(at, [setup]))
    if not results:
        pytest.skip(f"no judgements of {setup.collection} on this machine")
    found = list(verdicts(experiment, results))
    assert found
    assert [verdict for verdict in found if verdict.result not in ("ok", "stale")] == []


@pytest.mark.parametrize("name", sorted({name for name, _ in STORED}))
def test_stored_runs_have_the_settings_of_the_experiment_file(name, monkeypatch):
    """Neither the flags nor the method's settings make a stored run count as another one."""
    monkeypatch.setenv("MODELS", "models")
    experiment = read_experiment(find_experiment(name))
    at, stored = Workspace(experiment, RUNS / name, RUNS / "none", data="data"), stored_setups(name)
    planned = {(one.setup, one.condition): one for one in steps(at, stored, write=False)}
    for setup in stored:
        for condition, record in Archive(at.archive(setup)).records.items():
            search = planned[setup, condition]
            assert record["settings"] == search.settings, (setup.name, condition)
            assert TourConfig.parse(record["config"]) == search.request().config, (setup.name, condition)


@pytest.fixture
def judge(tmp_path):
    """The verdict on a score of 0.2 of a condition, given what is expected and what made the run."""

    def judge(made=None, **expected):
        values = definition() | {"expected": {"letters.tiny.flat": {"dense": expected}}}
        experiment = read(tmp_path, values)
        record = {"config": f"method={made[0]} depth=3", "algorithm": {"method": made[1]}} if made else {}
        run = MeasuredRun("dense", tmp_path, {}, {"RR": 0.2}, np.ones(1), record)
        (verdict,) = verdicts(experiment, {experiment.setups()[0]: {"dense": run}})
        return verdict.result

    return judge


@pytest.mark.parametrize(
    ("score", "result"), [(0.2, "ok"), (0.2001, "ok"), (0.1996, "okish"), (0.1994, "FAIL"), (None, "new")]
)
def test_scores_are_compared_with_expected_ones(judge, score, result):
    assert judge(**({} if score is None else {"RR": score})) == result


def test_a_score_of_another_algorithm_is_stale(judge, monkeypatch):
    now, before = ("hard", 2), ("hard", 1)
    monkeypatch.setitem(registry._METHODS, "hard", replace(METHODS["hard"], version=2))
    for made, expected, result in (
        (now, now, "FAIL"),
        (now, None, "FAIL"),
        (None, now, "FAIL"),
        (before, before, "stale"),
        (now, before, "stale"),
        (("dense", 1), now, "stale"),
        (("gone", 1), None, "stale"),
    ):
        wanted = {"method": expected[0], "version": expected[1]} if expected else {}
        assert judge(made, RR=0.9, **wanted) == result, (made, expected)
