"""The runs that are kept with the project have the scores that the files say."""

from pathlib import Path

import pytest

from tour_pyserini.experiments.definition import cells
from tour_pyserini.experiments.expected import verdicts
from tour_pyserini.experiments.locations import Places, variables
from tour_pyserini.experiments.measuring import measure
from tour_pyserini.experiments.reading import find_experiment, packaged, read_experiment

RUNS = Path(__file__).resolve().parents[2] / "runs"
LARGE = {"nq-test", "nq-dev", "scifact", "scifact-train"}


def archived(name):
    experiment = read_experiment(find_experiment(name))
    kept = [cell for cell in cells(experiment) if (RUNS / name / f"{cell.name}.runs.xz").is_file()]
    marks = {cell: [pytest.mark.slow] if cell.collection in LARGE else [] for cell in kept}
    return [pytest.param(name, cell, id=f"{name}: {cell.name}", marks=marks[cell]) for cell in kept]


CELLS = [case for name in packaged() for case in archived(name)]


@pytest.mark.skipif(not CELLS, reason="no runs are kept with the project")
@pytest.mark.parametrize(("name", "cell"), CELLS or [("", None)])
def test_kept_runs_have_the_expected_scores(name, cell, shared):
    experiment = read_experiment(find_experiment(name))
    places = Places(RUNS / name, RUNS / "none", None, variables(str(shared)))
    rows = measure(experiment, [cell], places)
    if not rows:
        pytest.skip(f"no judgements of {cell.collection} on this machine")
    found = list(verdicts(rows, experiment.expected))
    assert found
    assert [one for one in found if one.result != "ok"] == []
