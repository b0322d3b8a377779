"""Experiments on public collections: every name is one of the installed Pyserini's, every flag passes the parser."""

import shlex

import ir_measures
import pytest

from tour_pyserini.cli.search_flags import search_request
from tour_pyserini.experiments.definition import COLLECTION, conditions_of, find_experiment, read_experiment, setups
from tour_pyserini.experiments.planning import Locations, plan_search, variables
from tour_pyserini.support.java import ensure_java

RECIPES = ["dl-passages", "dl-passages-v2", "beir", "bright"]


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


@pytest.fixture
def locations(tmp_path):
    return Locations(tmp_path / "runs", tmp_path / "indexes", None, variables("data"))


def searches(name, locations):
    """Every search of a recipe: setup, condition and plan."""
    experiment = read_experiment(find_experiment(name))
    for setup in setups(experiment):
        for key, condition in conditions_of(experiment, setup).items():
            output = locations.run(setup, key)
            yield setup, key, plan_search(experiment, setup, condition, locations, output=output, qrels=None)


@pytest.mark.parametrize("name", RECIPES)
def test_every_name_is_one_of_pyserinis(name, locations, pyserini):
    experiment = read_experiment(find_experiment(name))
    built_here = name == "dl-passages-v2"
    for collection in experiment.collections.values():
        assert collection.topics in pyserini["topics"]
        folder, _, judged = collection.qrels.rpartition("/")
        assert folder == "${DATA}" and judged.removesuffix(".txt") in pyserini["qrels"]
        assert built_here == (collection.corpus not in pyserini["lucene"])
    used = set()
    for _, _, search in searches(name, locations):
        used |= {name for name in ("index", "sparse") if name in search.flags}
        if not built_here:
            assert search.flags["index"] in pyserini["faiss"]
        assert search.flags.get("sparse", "msmarco-v1-passage") in pyserini["lucene"]
        assert not any(COLLECTION in str(value) for value in search.flags.values())
    assert used == {"index", "sparse"}


def test_all_sets_with_prebuilt_vectors_are_there(pyserini):
    for name, prefix, encoder in (
        ("beir", "beir-v1.0.0-", "bge-base-en-v1.5"),
        ("bright", "bright-", "bge-large-en-v1.5"),
    ):
        known = {
            index.removeprefix(prefix).removesuffix(f".{encoder}")
            for index in pyserini["faiss"]
            if index.startswith(prefix) and index.endswith(encoder)
        }
        assert set(read_experiment(find_experiment(name)).collections) == known


@pytest.mark.parametrize("name", RECIPES)
def test_every_command_passes_the_real_parser(name, locations):
    seen = set()
    for setup, condition, search in searches(name, locations):
        if (setup.index_kind, condition) not in seen:  # the collections differ in names alone
            seen.add((setup.index_kind, condition))
            command = shlex.split(search.command())
            assert command[:3] == ["python", "-m", "tour_pyserini.search"]
            assert search_request(command[3:]) == search.request(condition)
    assert len(seen) >= 20


@pytest.mark.parametrize("name", RECIPES)
def test_budgets_and_measures_are_what_the_tables_say(name, locations):
    experiment = read_experiment(find_experiment(name))
    judged = [ir_measures.Qrel("q", "a", 2), ir_measures.Qrel("q", "b", 1)]
    run = [ir_measures.ScoredDoc("q", "a", 2.0), ir_measures.ScoredDoc("q", "b", 1.0)]
    for measure in experiment.measures:
        assert ir_measures.calc_aggregate([ir_measures.parse_measure(measure)], judged, run)
    for table, definition in experiment.tables.items():
        most = int(table.rpartition("-")[2])
        for condition in definition.conditions:
            _, _, search = next(found for found in searches(name, locations) if found[1] == condition)
            config = search.request(condition).config
            labels = config.most_labels if config.method_class.needs_labels else 0
            assert labels == (0 if condition in ("dense", "hybrid") else most), condition
            assert ("sparse" in search.flags) == table.startswith("hybrid")
