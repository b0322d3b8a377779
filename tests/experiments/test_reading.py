"""Experiments from YAML files."""

import pytest
import yaml
from small_experiment import definition

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import conditions_of, find_experiment, packaged, read_experiment, setups


def read(tmp_path, values):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return read_experiment(tmp_path / "a.yaml")


def test_a_sweep_becomes_one_condition_for_each_value(tmp_path):
    experiment = read(tmp_path, definition())
    assert list(experiment.conditions) == ["dense", "rerank-3", "rerank-6", "hard"]
    rerank = experiment.conditions["rerank-6"]
    assert rerank.flags == {"method": "rerank", "depth": 6}
    assert (rerank.title, rerank.sweep, rerank.value) == ("re-rank, depth 6", "rerank", 6.0)


def test_setups_are_named_and_chosen(tmp_path):
    experiment = read(tmp_path, definition())
    assert [setup.name for setup in setups(experiment)] == ["letters.tiny.flat", "letters.tiny.pq"]
    (pq,) = setups(experiment, {"indexes": ["pq"]})
    assert list(conditions_of(experiment, pq)) == ["dense", "rerank-3", "rerank-6"]  # `hard` is restricted
    assert list(conditions_of(experiment, pq, ["rerank"])) == ["rerank-3", "rerank-6"]
    with pytest.raises(TourError, match="'soft' is not one of the conditions; choose from"):
        conditions_of(experiment, pq, ["soft"])
    with pytest.raises(TourError, match="'ivf' is not one of the indexes; choose from flat, pq"):
        list(setups(experiment, {"indexes": ["ivf"]}))


def test_several_rerankers_are_part_of_the_name(tmp_path):
    values = definition()
    values["rerankers"]["other"] = {"flags": {"reranker": "other"}}
    names = [setup.name for setup in setups(read(tmp_path, values))]
    assert names[:2] == ["letters.tiny.flat.tiny", "letters.tiny.flat.other"]


def test_some_values_of_a_restricted_sweep_are_run_everywhere(tmp_path):
    values = definition()
    values["conditions"]["rerank"] |= {"only": {"indexes": ["flat"]}, "everywhere": [6]}
    experiment = read(tmp_path, values)
    flat, pq = setups(experiment)
    assert [name for name in conditions_of(experiment, flat) if "rerank" in name] == ["rerank-3", "rerank-6"]
    assert [name for name in conditions_of(experiment, pq) if "rerank" in name] == ["rerank-6"]


def changed(path, value):
    """The values with one changed, at a path such as `conditions.dense.flags`."""
    values = inside = definition()
    *parts, last = path.split(".")
    for part in parts:
        inside = inside[part]
    inside[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ("hist", 3, ["a.yaml has the unknown key 'hist'"]),
        ("hits", 0, ["a.yaml has hits: 0"]),
        ("conditions", {}, ["at least one of conditions"]),
        ("conditions.dense.flag", {}, ["a.yaml, conditions, dense has the unknown key 'flag'"]),
        ("conditions.dense.flags", {"method": ["a"]}, ["conditions, dense, flags gives --method"]),
        ("conditions.rerank.sweep", {"depth": 3}, ["conditions, rerank must sweep one flag over a list of numbers"]),
        ("conditions.rerank.sweep", {"depth": ["x"]}, ["conditions, rerank sweeps --depth over 'x'"]),
        ("conditions.rerank.everywhere", [4], ["conditions, rerank has everywhere: [4]"]),
        ("conditions.rerank-3", {"flags": {}}, ["defines the condition rerank-3 a second time"]),
        ("conditions.hard.only", {"indexes": ["ivf"]}, ["uses 'ivf', which is not defined in its indexes"]),
        ("collections.letters.corpus", None, ["collections, letters needs a text for corpus"]),
        ("collections.a/b", {}, ["collections has the name 'a/b'"]),
        ("indexes.pq.vectors", "exact", ["uses 'exact', which is not defined in its indexes"]),
        ("tables.main.baselines", ["soft"], ["uses 'soft', which is not defined in its conditions"]),
        ("figures.labels.kind", "pie", ["a figure of the unknown kind 'pie'"]),
        ("figures.labels.curves", ["dense"], ["uses 'dense', which is not defined in its sweeps"]),
        ("expected", {"a": {"b": {"nDCG@10": "high"}}}, ["expected, a, b gives nDCG@10"]),
    ],
)
def test_wrong_values_are_refused_with_their_section(tmp_path, path, value, names):
    with pytest.raises(TourError) as error:
        read(tmp_path, changed(path, value))
    for name in names:
        assert name in str(error.value)


def test_a_file_that_is_not_yaml_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.yaml").write_text("title: a\nhits: [1\n")
    with pytest.raises(TourError, match=r"a\.yaml, line 3 is not YAML"):
        read_experiment(tmp_path / "a.yaml")
    with pytest.raises(TourError, match="the experiment nothing does not exist; give a YAML file"):
        find_experiment("nothing")
    (tmp_path / "a.yaml").write_text("!!python/object/apply:os.getcwd []\n")
    with pytest.raises(TourError, match="is not YAML"):
        read_experiment(tmp_path / "a.yaml")


@pytest.mark.parametrize("name", ["paper-passages", "paper-passages-phrases"])
def test_published_scores_belong_to_setups_and_conditions_of_the_file(name):
    experiment = read_experiment(find_experiment(name))
    assert {setup.name for setup in setups(experiment)} == set(experiment.paper)
    for scores in experiment.paper.values():
        assert set(scores) == set(experiment.conditions)
        assert all(set(measured) == set(experiment.measures) for measured in scores.values())


@pytest.mark.parametrize("name", [name for name in packaged() if name.startswith("paper-phrases")])
def test_published_exact_match_belongs_to_conditions_of_the_file(name):
    experiment = read_experiment(find_experiment(name))
    known = {setup.name: conditions_of(experiment, setup) for setup in setups(experiment)}
    for setup, scores in experiment.paper.items():
        assert scores.keys() <= known[setup].keys()
        assert all(set(measured) == {"EM@1"} for measured in scores.values())


def test_each_collection_of_paper_phrases_has_its_own_reranker():
    experiment = read_experiment(find_experiment("paper-phrases"))
    run = {setup.name for setup in setups(experiment) if conditions_of(experiment, setup)}
    assert run == set(experiment.paper)
