"""Tables, costs and curves of runs whose measures are given."""

import re

import pytest
import yaml
from rows import row
from small_experiment import definition

from tour_pyserini.experiments.definition import read_experiment, setups
from tour_pyserini.experiments.figures import Curve, curves_by_setup, labels_per_query
from tour_pyserini.experiments.latency import encoding_seconds, seconds_per_query
from tour_pyserini.experiments.measuring import verdicts
from tour_pyserini.experiments.tables import tables
from tour_pyserini.support.costs import Costs


@pytest.fixture
def experiment(tmp_path):
    values = definition() | {"measures": ["nDCG@10"]}
    values["collections"]["more"] = dict(values["collections"]["letters"])
    values["indexes"] = {"flat": {"name": "exact"}}
    values["conditions"]["hard"] = {"flags": {"method": "hard"}}
    values["tables"]["main"]["conditions"] = ["dense", "rerank-3"]
    values["paper"] = {"letters.tiny.flat": {"rerank-3": {"nDCG@10": 0.5}}}
    values["figures"] |= {
        "time": {"kind": "seconds", "curves": ["rerank"]},
        "swept": {"kind": "sweep", "curves": ["rerank"], "lines": ["dense"]},
        "cost": {"kind": "efficiency", "curves": ["rerank"]},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return read_experiment(tmp_path / "a.yaml")


@pytest.fixture
def rows(experiment):
    letters, more = setups(experiment)
    first = {
        "dense": row("dense", [0, 0, 0.4, 0.4]),
        "rerank-3": row("rerank-3", [1, 1, 1, 0.2], pairs=12, reused=8),
        "rerank-6": row("rerank-6", [1, 1, 1, 1], pairs=24),
    }
    second = {"dense": row("dense", [1, 1, 1, 1]), "rerank-3": row("rerank-3", [0, 0, 0, 1], pairs=6)}
    return {letters: first, more: second}


def test_a_table_for_each_setup_and_their_means(experiment, rows):
    first, second, means = tables(experiment, rows, lambda setup, row, labels: labels / 8)
    head = ["condition", "nDCG@10", "labels/query", "seconds/query", "nDCG@10 (paper)", "nDCG@10 vs dense"]
    assert first.cells == [
        head,
        ["dense", "0.2000", "0.0", "0.000", "-", ""],
        # Four gains of three signs and one against: of the 16 patterns of signs, 4 are as extreme.
        ["re-rank, depth 3", "0.8000", "3.0", "1.500", "0.5000", "+0.6000 3/1 0.250"],
    ]
    assert "letters, tiny, exact" in first.title and "1 comparisons per baseline" in first.title
    assert second.cells[0] == [name for name in head if "paper" not in name]
    assert means.cells == [
        ["condition", "nDCG@10", "labels/query", "nDCG@10 vs dense"],
        ["dense", "0.6000", "0.0", ""],
        ["re-rank, depth 3", "0.5250", "2.2", means.cells[2][3]],
    ]
    # The mean of +0.6 and -0.75, with an interval around it.
    difference, low, high = map(float, re.findall(r"[+-]\d\.\d{4}", means.cells[2][3]))
    assert low <= difference == -0.075 <= high
    assert means.title == "main: mean of letters, more, tiny, exact"


def test_verdicts_on_expected_scores(rows):
    def expected(value):
        return {"letters.tiny.flat": {"dense": {"nDCG@10": value}}}

    results = {value: next(verdicts(rows, expected(value))).result for value in (0.2, 0.2001, 0.1996, 0.1994)}
    assert results == {0.2: "ok", 0.2001: "ok", 0.1996: "okish", 0.1994: "FAIL"}
    assert next(verdicts(rows, {})).result == "new"


def test_seconds_per_query_pay_for_every_label():
    costs = Costs(queries=4, pairs=40, seconds={"encode": 0.1, "search": 2.0, "label": 0.3, "update": 2.0})
    assert seconds_per_query(costs, 0.5, 0.25) == 1.0 + 5.0 + 0.25
    assert seconds_per_query(costs, 0.5, 0.25, labels=80) == 1.0 + 10.0 + 0.25
    first, later = row("a", [0] * 4, seconds={"encode": 2.0}), row("b", [0] * 4, seconds={"encode": 0.01})
    assert encoding_seconds([first, later]) == 0.5
    assert encoding_seconds([]) == 0.0


def test_the_curves_of_each_kind_of_figure(experiment, rows):
    letters = next(setups(experiment))

    def shown(name, cost=labels_per_query):
        return curves_by_setup(experiment, experiment.figures[name], rows, cost)

    # The second setup has one point of the sweep, which makes no curve.
    assert shown("labels") == {
        letters: [Curve("re-rank", [(3.0, 0.8), (6.0, 1.0)]), Curve("dense", [(0.0, pytest.approx(0.2))])]
    }
    assert shown("time", lambda setup, row, labels: labels / 100)[letters] == [
        Curve("re-rank", [(0.12, 0.8), (0.24, 1.0)])
    ]
    assert shown("time", lambda setup, row, labels: None) == {}
    assert shown("swept")[letters][0].points == [(3.0, 0.8), (6.0, 1.0)]
    assert shown("cost")[letters] == [
        Curve("re-rank", [(3.0, 3.0), (6.0, 6.0)]),
        Curve("re-rank, no label used again", [(3.0, 5.0), (6.0, 6.0)], dashed=True),
    ]


def test_rerankers_are_shown_line_by_line(tmp_path):
    values = definition() | {"measures": ["nDCG@10"], "paper": {"letters.tiny.flat.small": {"dense": {"nDCG@10": 0.5}}}}
    values["rerankers"] = {"large": {"name": "Large", "flags": {}}, "small": {"name": "Small", "flags": {}}}
    values["tables"] = {"sizes": {"conditions": ["dense"], "rerankers": ["small", "large"]}}
    values["indexes"] = {"flat": {"name": "exact"}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    experiment = read_experiment(tmp_path / "a.yaml")
    large, small = setups(experiment)
    measured = {large: {"dense": row("dense", [1, 1, 1, 0.2])}, small: {"dense": row("dense", [0, 0, 0.4, 0.4])}}
    (table,) = tables(experiment, measured, lambda *_: None)
    assert table.cells == [
        ["re-ranker", "nDCG@10", "labels/query", "nDCG@10 (paper)", "nDCG@10 vs small"],
        ["Small", "0.2000", "0.0", "0.5000", ""],
        ["Large", "0.8000", "0.0", "-", "+0.6000 3/1 0.250"],
    ]
    assert table.title.startswith("sizes: dense, letters, tiny, exact; ")
