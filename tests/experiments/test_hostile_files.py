"""Experiment files, settings and records that come from somebody else."""

import json
import logging

import pytest
from small_experiment import definition

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.records import read_costs
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import read_yaml
from tour_pyserini.support.files import sha256
from tour_pyserini.support.pyserini_names import open_prebuilt

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))


@pytest.mark.parametrize(
    "text",
    [
        *(BOMB, "a: &a [*a]", "[" * 5000, "{a: " * 5000, "a: !!float x", "a: !!int x", "a: !!timestamp x"),
        *("a: !!bool x", "a: !!int ''", "a: 2026-02-30", "a: " + "9" * 8000, "a: !!python/name:os.system", "a: \0"),
        *("? {a: b}\n: 1", "a: !!binary x", "<<: 1", 'a: {b: ["\\0x"]}'),
    ],
)
def test_yaml_that_is_too_much_or_wrong_is_refused_in_one_short_sentence(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(TourError) as refusal:
        read_yaml(path)
    assert str(refusal.value).startswith(str(path)) and len(str(refusal.value)) < 500 and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["depth = " + "9" * 8000, "depth = " + "[" * 5000, "a." * 5000 + "b = 1", "depth = 1e999"]
)
def test_toml_that_is_too_much_is_refused(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(TourError, match=r"a\.toml") as refusal:
        TourConfig.load(tmp_path / "a.toml")
    assert len(str(refusal.value)) <= 600


def changed(*keys, value):
    values = definition()
    part = values
    for key in keys[:-1]:
        part = part.setdefault(key, {})
    part[keys[-1]] = value
    return values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            changed("collections", "letters", "index", value="../../x"),
            "index: '../../x', which cannot be part of a file",
        ),
        (changed("collections", "letters", "index", value="/x"), "index: '/x', which cannot be part of a file"),
        (changed("conditions", "dense", "flags", "trace", value="/x"), "may not give --trace"),
        (changed("conditions", "dense", "flags", "output_queries", value="/x"), "may not give --output-queries"),
        (changed("collections", "letters", "search", "cache", value="/x"), "may not give --cache"),
        (changed("encoders", "tiny", "index", "overwrite", value=True), "may not give --overwrite"),
    ],
)
def test_an_experiment_file_writes_to_its_own_folders_only(small, values, message):
    small.write(values)
    with pytest.raises(TourError, match=message):
        small.command("--dry-run")


def test_the_record_of_another_run_is_not_believed(tmp_path, caplog):
    run = tmp_path / "a.trec"
    run.write_text("q1 Q0 d1 1 0.5 t\n")
    record = {"costs": {"queries": 1, "pairs": 20}, "run": {"sha256": sha256(run)}}
    (tmp_path / "a.trec.json").write_text(json.dumps(record))
    assert read_costs(run).pairs == 20
    run.write_text("q1 Q0 d2 1 0.5 t\n")
    with caplog.at_level(logging.WARNING):
        assert read_costs(run) is None
    assert "belongs to another run" in caplog.text


@pytest.mark.parametrize(
    "costs", [None, [], {"pairs": "20"}, {"pairs": -1}, {"seconds": {"a": "b"}}, {"x": 1}, {"pairs": 1e999}]
)
def test_costs_of_another_type_are_refused(tmp_path, costs):
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 0.5 t\n")
    (tmp_path / "a.trec.json").write_text(json.dumps({"costs": costs}))
    with pytest.raises(TourError, match="is not the record of a run"):
        read_costs(tmp_path / "a.trec")


def test_a_failed_download_is_not_an_unknown_name():
    def failing(reason):
        return lambda: print(reason)  # noqa: T201 (as Pyserini does)

    assert open_prebuilt("x", failing("Unrecognized index name x")) is None
    with pytest.raises(TourError, match=r"'x' cannot be opened \(Unable to download .*check the network"):
        open_prebuilt("x", failing("Unable to download prebuilt index at any known URLs."))


def test_a_message_quotes_little_of_a_file():
    message = str(TourError("a.tsv, line 3 has " + "x" * 2_000_000 + "\n; correct it."))
    assert len(message) <= 600 and message.startswith("a.tsv, line 3") and message.endswith("; correct it.")


def test_messages_do_not_command_a_terminal():
    message = str(TourError("the topic \x1b[2J\x07 of a\x9bfile\nis\twrong"))
    assert message == "the topic ?[2J? of a?file is?wrong"
