"""Records beside runs."""

import json

import pytest

from tour_pyserini.data.records import read_costs
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import sha256


def test_the_record_of_another_run_is_not_believed(tmp_path, caplog):
    run = tmp_path / "a.trec"
    run.write_text("q1 Q0 d1 1 0.5 t\n")
    record = {"costs": {"queries": 1, "pairs": 20}, "run": {"sha256": sha256(run)}}
    (tmp_path / "a.trec.json").write_text(json.dumps(record))
    assert read_costs(run).pairs == 20
    run.write_text("q1 Q0 d2 1 0.5 t\n")
    assert read_costs(run) is None and "belongs to another run" in caplog.text


@pytest.mark.parametrize("costs", [None, {"pairs": "20"}, {"pairs": -1}, {"seconds": {"a": "b"}}, {"x": 1}])
def test_costs_of_another_type_are_refused(tmp_path, costs):
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 0.5 t\n")
    (tmp_path / "a.trec.json").write_text(json.dumps({"costs": costs}))
    with pytest.raises(TourError, match="record"):
        read_costs(tmp_path / "a.trec")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.tsv has \x1b[2J\x07 of a\x9bfile\nis\twrong", "a.tsv has ?[2J? of a?file is?wrong"),
        ("a.tsv has " + "x" * 2_000_000 + "\n; correct it.", None),
    ],
)
def test_a_message_quotes_little_and_does_not_command_a_terminal(text, said):
    message = str(TourError(text))
    assert len(message) <= 600 and message.startswith("a.tsv") and said in (None, message)
