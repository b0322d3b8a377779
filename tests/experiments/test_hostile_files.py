"""Settings and records that come from somebody else."""

import json
import logging

import pytest

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.records import read_costs
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import sha256
from tour_pyserini.support.pyserini import open_prebuilt


@pytest.mark.parametrize(
    "text", ["depth = " + "9" * 8000, "depth = " + "[" * 5000, "a." * 5000 + "b = 1", "depth = 1e999"]
)
def test_toml_that_is_too_much_is_refused(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(TourError, match=r"a\.toml") as refusal:
        TourConfig.load(tmp_path / "a.toml")
    assert len(str(refusal.value)) <= 600


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
