"""The requests of an experiment: all packaged files, command lines, paths, and settings in records."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import ir_datasets
import pytest

from tour_pyserini.data.demo_collection import CORPUS
from tour_pyserini.data.input_files import IRDS
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import COLLECTION, find_experiment, packaged, read_experiment
from tour_pyserini.experiments.planning import Workspace, plan_index
from tour_pyserini.experiments.running import steps
from tour_pyserini.search import search_request
from tour_pyserini.support.packages import load_plugins
from tour_pyserini.support.pyserini import ensure_java

RECIPES = ["dl-passages", "dl-passages-v2", "beir", "bright"]


@pytest.fixture
def open_file(tmp_path, monkeypatch):
    """Opens a packaged experiment."""
    monkeypatch.setenv("MODELS", "models")
    return lambda name: Workspace(read_experiment(find_experiment(name)), tmp_path, tmp_path / "indexes", data="data")


def searches(at):
    return steps(at, at.experiment.setups(), write=False)


@pytest.mark.parametrize("name", packaged())
def test_every_condition_of_every_packaged_file_builds_its_requests(name, open_file):
    at = open_file(name)
    for setup in at.experiment.setups():
        for kind in filter(None, [setup.index_kind, at.experiment.indexes[setup.index_kind].vectors]):
            planned = plan_index(at, setup, kind)
            assert (planned is None) == (at.experiment.indexes[kind].prebuilt is not None)
            if planned is not None:
                request = planned.request()
                assert request.index == str(planned.folder)
                assert request.corpus == at.expanded(at.experiment.collections[setup.collection].corpus)
    assert searches(at)
    for search in searches(at):
        request = search.request()
        assert (f"{request.output}.gz", request.hits) == (str(search.output), at.experiment.hits)
        settings = {"method": request.config.method, **request.config.values()}
        for flag, value in at.experiment.conditions[search.condition].flags.items():
            assert settings.get(flag.replace("-", "_"), value) == value


def test_variables_of_paths(open_file):
    at = open_file("demo")
    assert at.expanded("${DATA}/a/$$5") == "data/a/$5"
    with pytest.raises(TourError, match="give --data"):
        at._replace(data=None).expanded("${DATA}/a")
    assert at.is_file("${DEMO}/" + CORPUS.name)
    assert not at.is_file("${DEMO}/missing.jsonl") and not at.is_file("${NOWHERE}/a")


@pytest.fixture(scope="module", autouse=True)
def peers():
    """The plugin that packaged experiments name, which is in the repository."""
    load_plugins([str(Path(__file__).parents[2] / "benchmarks" / "peers")])


@pytest.fixture(scope="module")
def pyserini():
    """Pyserini's tables of prebuilt indexes, topics and judgements."""
    ensure_java()
    from pyserini import prebuilt_index_info
    from pyserini.search import _base

    return {
        "faiss": set(prebuilt_index_info.FAISS_INDEX_INFO),
        "lucene": set(prebuilt_index_info.TF_INDEX_INFO),
        "topics": set(_base.topics_mapping),
        "qrels": set(_base.qrels_mapping),
    }


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_have_pyserinis_names_and_flags_of_the_real_parser(name, open_file, pyserini):
    at = open_file(name)
    experiment = at.experiment
    built_here = name == "dl-passages-v2"
    for collection in experiment.collections.values():
        assert collection.topics in pyserini["topics"]
        folder, _, judged = collection.qrels.rpartition("/")
        if folder == "${DATA}":
            assert judged.removesuffix(".txt") in pyserini["qrels"]
        else:
            assert ir_datasets.load(collection.qrels.removeprefix(IRDS)).has_qrels()
        assert built_here == (collection.corpus not in pyserini["lucene"])
    first = {}
    for search in searches(at):
        assert built_here or search.flags["index"] in pyserini["faiss"]
        assert search.flags.get("sparse", "none") in {"none", *pyserini["lucene"]}
        assert not any(COLLECTION in str(value) for value in search.flags.values())
        if search.condition not in first:  # the collections differ in names alone
            first[search.condition] = search.request()
            command = shlex.split(search.command())
            assert command[:3] == ["python", "-m", "tour_pyserini.search"]
            assert replace(search_request(command[3:]), plugin=()) == first[search.condition]
    # Budgets and signals are what the names of tables say.
    for table, chosen in experiment.tables.items():
        for condition in chosen.conditions:
            expected = 0 if condition in ("dense", "hybrid") else int(table.rpartition("-")[2])
            assert first[condition].config.most_labels == expected, condition
            assert (first[condition].sparse not in ((), ("none",))) == table.startswith("hybrid"), condition


SETS = {"beir": r"beir-v1\.0\.0-(.*)\.bge-base-en-v1\.5", "bright": r"bright-(.*)\.bge-large-en-v1\.5"}


@pytest.mark.parametrize("name", SETS)
def test_all_sets_with_prebuilt_vectors_are_there(pyserini, name):
    known = {found[1] for found in map(re.compile(SETS[name]).fullmatch, pyserini["faiss"]) if found}
    assert set(read_experiment(find_experiment(name)).collections) == known
