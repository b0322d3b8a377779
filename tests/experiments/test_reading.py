"""Experiments from YAML files."""

import dataclasses

import pytest
import yaml
from small_experiment import definition

from tour_pyserini.cli.index_flags import index_arguments
from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import cells, conditions_of
from tour_pyserini.experiments.locations import Places, variables
from tour_pyserini.experiments.planning import index_argv, plan_search, settings_of
from tour_pyserini.experiments.reading import find_experiment, packaged, read_experiment


def read(tmp_path, values):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return read_experiment(tmp_path / "a.yaml")


def test_sweeps_are_spread_out(tmp_path):
    experiment = read(tmp_path, definition())
    assert list(experiment.conditions) == ["dense", "rerank-3", "rerank-6", "hard"]
    rerank = experiment.conditions["rerank-6"]
    assert rerank.flags == {"method": "rerank", "depth": 6}
    assert (rerank.title, rerank.sweep, rerank.value) == ("re-rank, depth 6", "rerank", 6.0)


def test_cells_are_named_and_chosen(tmp_path):
    experiment = read(tmp_path, definition())
    assert [cell.name for cell in cells(experiment)] == ["letters.tiny.flat", "letters.tiny.pq"]
    (pq,) = cells(experiment, {"indexes": ["pq"]})
    assert list(conditions_of(experiment, pq)) == ["dense", "rerank-3", "rerank-6"]  # `hard` is restricted
    assert list(conditions_of(experiment, pq, ["rerank"])) == ["rerank-3", "rerank-6"]
    with pytest.raises(TourError, match="no 'soft' among the conditions"):
        conditions_of(experiment, pq, ["soft"])
    with pytest.raises(TourError, match="no 'ivf' among the indexes"):
        list(cells(experiment, {"indexes": ["ivf"]}))


def test_several_rerankers_are_part_of_the_name(tmp_path):
    values = definition()
    values["rerankers"]["other"] = {"flags": {"reranker": "other"}}
    names = [cell.name for cell in cells(read(tmp_path, values))]
    assert names[:2] == ["letters.tiny.flat.tiny", "letters.tiny.flat.other"]


def test_some_values_of_a_restricted_sweep_are_run_everywhere(tmp_path):
    values = definition()
    values["conditions"]["rerank"] |= {"only": {"indexes": ["flat"]}, "everywhere": [6]}
    experiment = read(tmp_path, values)
    flat, pq = cells(experiment)
    assert [name for name in conditions_of(experiment, flat) if "rerank" in name] == ["rerank-3", "rerank-6"]
    assert [name for name in conditions_of(experiment, pq) if "rerank" in name] == ["rerank-6"]


def changed(path, value):
    """The values with one changed, at a place like `conditions.dense.flags`."""
    values = inside = definition()
    *parts, last = path.split(".")
    for part in parts:
        inside = inside[part]
    inside[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ("hist", 3, ["a.yaml has 'hist'"]),
        ("hits", 0, ["a.yaml has hits: 0"]),
        ("conditions", {}, ["at least one of conditions"]),
        ("conditions.dense.flag", {}, ["a.yaml, conditions, dense has 'flag'"]),
        ("conditions.dense.flags", {"method": ["a"]}, ["conditions, dense, flags gives --method"]),
        ("conditions.rerank.sweep", {"depth": 3}, ["conditions, rerank must sweep one flag"]),
        ("conditions.rerank.sweep", {"depth": ["x"]}, ["conditions, rerank sweeps --depth over 'x'"]),
        ("conditions.rerank.everywhere", [4], ["conditions, rerank has everywhere: [4]"]),
        ("conditions.rerank-3", {"flags": {}}, ["defines the condition rerank-3 a second time"]),
        ("conditions.hard.only", {"indexes": ["ivf"]}, ["mentions 'ivf'", "indexes"]),
        ("collections.letters.corpus", None, ["collections, letters needs a text for corpus"]),
        ("collections.a/b", {}, ["collections has the name 'a/b'"]),
        ("indexes.pq.vectors", "exact", ["mentions 'exact'", "indexes"]),
        ("tables.main.baselines", ["soft"], ["mentions 'soft'", "conditions"]),
        ("figures.labels.kind", "pie", ["kind 'pie'"]),
        ("figures.labels.curves", ["dense"], ["mentions 'dense'", "sweeps"]),
        ("expected", {"a": {"b": {"nDCG@10": "high"}}}, ["expected, a, b gives nDCG@10"]),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, path, value, names):
    with pytest.raises(TourError) as error:
        read(tmp_path, changed(path, value))
    for name in names:
        assert name in str(error.value)


def test_what_is_no_yaml_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.yaml").write_text("title: a\nhits: [1\n")
    with pytest.raises(TourError, match=r"a\.yaml, line 3 is not YAML"):
        read_experiment(tmp_path / "a.yaml")
    with pytest.raises(TourError, match="there is no experiment nothing"):
        find_experiment("nothing")
    (tmp_path / "a.yaml").write_text("!!python/object/apply:os.getcwd []\n")
    with pytest.raises(TourError, match="is not YAML"):
        read_experiment(tmp_path / "a.yaml")


@pytest.mark.parametrize("name", packaged())
def test_every_condition_of_the_packaged_files_is_one_the_search_command_takes(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MODELS", "models")
    experiment = read_experiment(find_experiment(name))
    known = {field.name for field in dataclasses.fields(TourConfig)}
    places = Places(tmp_path, tmp_path, None, variables("data"))
    for cell in cells(experiment):
        for condition_name, condition in conditions_of(experiment, cell).items():
            search = plan_search(experiment, cell, condition, places, output=tmp_path / "a.trec", qrels=None)
            if (words := index_argv(experiment, cell, places, cell.kind)) is not None:
                index_arguments(words)
            config = settings_of(search, condition_name)
            for flag, value in condition.flags.items():
                if (field := flag.replace("-", "_")) in known:
                    assert getattr(config, field) == value


@pytest.mark.parametrize("name", ["paper-passages", "paper-passages-phrases"])
def test_published_figures_are_of_conditions_that_are_run(name):
    experiment = read_experiment(find_experiment(name))
    assert {cell.name for cell in cells(experiment)} == set(experiment.paper)
    for scores in experiment.paper.values():
        assert set(scores) == set(experiment.conditions)
        assert all(set(each) == set(experiment.measures) for each in scores.values())


@pytest.mark.parametrize("name", [name for name in packaged() if name.startswith("paper-phrases")])
def test_published_exact_match_is_of_conditions_that_are_run(name):
    experiment = read_experiment(find_experiment(name))
    known = {cell.name: conditions_of(experiment, cell) for cell in cells(experiment)}
    for cell, scores in experiment.paper.items():
        assert scores.keys() <= known[cell].keys()
        assert all(set(each) == {"EM@1"} for each in scores.values())


def test_each_collection_of_the_papers_has_its_own_re_ranker():
    experiment = read_experiment(find_experiment("paper-phrases"))
    run = {cell.name for cell in cells(experiment) if conditions_of(experiment, cell)}
    assert run == set(experiment.paper)
