"""The requests of an experiment: all packaged files, command lines, and settings in records."""

import pytest
import yaml
from small_experiment import definition

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import conditions_of, find_experiment, packaged, read_experiment, setups
from tour_pyserini.experiments.planning import Locations, plan_index, plan_search, variables


@pytest.fixture
def locations(tmp_path, monkeypatch):
    monkeypatch.setenv("MODELS", "models")
    return Locations(tmp_path / "runs", tmp_path / "indexes", None, variables("data"))


@pytest.mark.parametrize("name", packaged())
def test_every_condition_of_every_packaged_file_builds_its_requests(name, locations):
    experiment = read_experiment(find_experiment(name))
    searches = indexes = 0
    for setup in setups(experiment):
        kinds = [setup.index_kind, experiment.indexes[setup.index_kind].vectors]
        for kind in filter(None, kinds):
            planned = plan_index(experiment, setup, locations, kind)
            assert (planned is None) == (experiment.indexes[kind].prebuilt is not None)
            if planned is not None:
                request = planned.request()
                assert request.index == str(planned.folder)
                assert request.corpus == locations.expanded(experiment.collections[setup.collection].corpus)
                indexes += 1
        for condition_name, condition in conditions_of(experiment, setup).items():
            output = locations.run(setup, condition_name)
            search = plan_search(experiment, setup, condition, locations, output=output, qrels=None)
            request = search.request(condition_name)
            assert (request.output, request.hits) == (str(output), experiment.hits)
            settings = {"method": request.config.method, **request.config.settings()}
            for flag, value in condition.flags.items():
                if (setting := flag.replace("-", "_")) in settings:
                    assert settings[setting] == value
            searches += 1
    assert searches and (indexes or all(index.prebuilt for index in experiment.indexes.values()))


def planned(tmp_path, locations, **flags):
    values = definition()
    values["conditions"] = {"only": {"flags": flags}}
    values |= {"tables": {}, "figures": {}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    experiment = read_experiment(tmp_path / "a.yaml")
    setup = next(setups(experiment, {"indexes": ["pq"]}))
    output = tmp_path / "a.trec"
    return plan_search(experiment, setup, experiment.conditions["only"], locations, output=output, qrels=None)


def test_a_search_as_a_command_line_and_as_settings_for_its_record(tmp_path, locations):
    flags = {"method": "rerank", "depth": 30, "early-stopping": False, "score-weight": 0.5}
    search = planned(tmp_path, locations, **flags)
    shared = "--reranker-threads 1 --method rerank --depth 30 --no-early-stopping --score-weight 0.5 --hits 20"
    assert search.command() == (
        "python -m tour_pyserini.search --topics data/topics.tsv --corpus data/corpus.jsonl "
        f"--reranker models/reranker {shared} --index {tmp_path}/indexes/letters.tiny.pq "
        f"--vectors {tmp_path}/indexes/letters.tiny.flat --output {tmp_path}/a.trec"
    )
    assert search.settings == (
        "--encoder '${MODELS}/encoder' --threads 1 --pq --pq-m 4 --pq-nbits 4 --vectors flat "
        "--topics '${DATA}/topics.tsv' --corpus '${DATA}/corpus.jsonl' "
        f"--reranker '${{MODELS}}/reranker' {shared}"
    )


def test_numbers_may_be_text_with_variables(tmp_path, locations, monkeypatch):
    monkeypatch.setenv("THREADS", "3")
    numbers = Locations(*locations[:3], variables("data"))
    request = planned(tmp_path, numbers, method="hard", threads="${THREADS}", tau="0.25").request("only")
    assert (request.threads, request.config.tau) == (3, 0.25)
    with pytest.raises(TourError, match="the condition only: --threads must be a whole number above 0, not 'many'"):
        planned(tmp_path, numbers, threads="many").request("only")
