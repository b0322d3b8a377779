"""Tables, costs and curves of runs whose measures are given."""

import re
from pathlib import Path

import numpy as np
import pytest
from small_experiment import definition, read

from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.planning import Workspace
from tour_pyserini.experiments.report import Report


def row(name, values, *, pairs=0):
    """A run of four queries with these nDCG@10."""
    each = np.array(values, dtype=np.float64)
    means = {"nDCG@10": float(each.mean())}
    return MeasuredRun(
        name, Path(name), {"nDCG@10": each}, means, np.ones(4, dtype=bool), {"costs": {"queries": 4, "pairs": pairs}}
    )


def report(experiment, results):
    return Report(Workspace(experiment, Path("runs"), Path("indexes")), results, {})


@pytest.fixture
def experiment(tmp_path):
    values = definition() | {"measures": ["nDCG@10"]}
    values["collections"]["more"] = dict(values["collections"]["letters"])
    values["indexes"] = {"flat": {"name": "exact"}}
    values["conditions"]["hard"] = {"flags": {"method": "hard"}}
    values["tables"]["main"] = {"conditions": ["dense", "rerank-3"], "baselines": ["dense", "rerank-3"]}
    values["paper"] = {"letters.tiny.flat": {"rerank-3": {"nDCG@10": 0.5}}}
    values["figures"]["swept"] = {"kind": "sweep", "curves": ["rerank"], "lines": ["dense"]}
    return read(tmp_path, values)


@pytest.fixture
def rows(experiment):
    letters, more = experiment.setups()
    first = {
        "dense": row("dense", [0, 0, 0.4, 0.4]),
        "rerank-3": row("rerank-3", [1, 1, 1, 0.2], pairs=12),
        "rerank-6": row("rerank-6", [1, 1, 1, 1], pairs=24),
    }
    second = {"dense": row("dense", [1, 1, 1, 1]), "rerank-3": row("rerank-3", [0, 0, 0, 1], pairs=6)}
    return {letters: first, more: second}


def test_tables_for_each_setup_and_their_means(experiment, rows):
    found = report(experiment, rows).tables
    means, against_dense, against_rerank, second, _, _, pooled, pooled_dense, _ = found
    head = ["condition", "nDCG@10", "labels/query", "nDCG@10 (paper)"]
    assert means.cells == [head, ["dense", "0.2000", "0.0", "-"], ["re-rank, depth 3", "0.8000", "3.0", "0.5000"]]
    assert means.title == "main: letters, tiny, exact" and "labels/query" in means.legend
    # Four gains of three signs and one against: of the 16 patterns of signs, 4 are as extreme.
    assert against_dense.cells == [["condition", "nDCG@10"], ["re-rank, depth 3", "+0.6000 3/1 0.250"]]
    assert against_dense.title.endswith("against dense (1 comparisons)") and "won/lost" in against_dense.legend
    assert against_rerank.cells[1] == ["dense", "-0.6000 1/3 0.250"]
    assert second.cells[0] == head[:-1]
    assert pooled.cells == [head[:-1], ["dense", "0.6000", "0.0"], ["re-rank, depth 3", "0.5250", "2.2"]]
    # The mean of +0.6 and -0.75, with an interval around it.
    difference, low, high = map(float, re.findall(r"[+-]\d\.\d{4}", pooled_dense.cells[1][1]))
    assert low <= difference == -0.075 <= high
    assert pooled.title == "main: mean of letters, more, tiny, exact"


def test_the_curves_of_each_kind_of_figure(experiment, rows):
    letters = experiment.setups()[0]

    def shown(name):
        return report(experiment, rows).curves(experiment.figures[name])

    # The second setup has one point of the sweep, which makes no curve.
    assert shown("labels") == {letters: {"re-rank": [(3.0, 0.8), (6.0, 1.0)], "dense": [(0.0, pytest.approx(0.2))]}}
    assert shown("swept")[letters]["re-rank"] == [(3.0, 0.8), (6.0, 1.0)]


def test_rerankers_are_shown_line_by_line(tmp_path):
    values = definition() | {"measures": ["nDCG@10"], "paper": {"letters.tiny.flat.small": {"dense": {"nDCG@10": 0.5}}}}
    values["rerankers"] = {"large": {"name": "Large", "flags": {}}, "small": {"name": "Small", "flags": {}}}
    values["tables"] = {"sizes": {"conditions": ["dense"], "rerankers": ["small", "large"]}}
    values["indexes"] = {"flat": {"name": "exact"}}
    experiment = read(tmp_path, values)
    large, small = experiment.setups()
    measured = {large: {"dense": row("dense", [1, 1, 1, 0.2])}, small: {"dense": row("dense", [0, 0, 0.4, 0.4])}}
    means, against = report(experiment, measured).tables
    assert means.cells == [
        ["re-ranker", "nDCG@10", "labels/query", "nDCG@10 (paper)"],
        ["Small", "0.2000", "0.0", "0.5000"],
        ["Large", "0.8000", "0.0", "-"],
    ]
    assert against.cells == [["re-ranker", "nDCG@10"], ["Large", "+0.6000 3/1 0.250"]]
    assert means.title == "sizes: dense, letters, tiny, exact"
