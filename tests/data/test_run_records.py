"""Records beside runs."""

import json

import pytest

from tour_pyserini.data.run_records import read_record
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import sha256


def test_the_record_of_another_run_is_not_believed(tmp_path, caplog):
    run = tmp_path / "a.trec"
    run.write_text("q1 Q0 d1 1 0.5 t\n")
    record = {"costs": {"queries": 1, "pairs": 20}, "run": {"sha256": sha256(run)}}
    (tmp_path / "a.trec.json").write_text(json.dumps(record))
    assert read_record(run) == record
    run.write_text("q1 Q0 d2 1 0.5 t\n")
    assert read_record(run) is None and "belongs to another run" in caplog.text
    (tmp_path / "a.trec.json").write_text("{}")
    with pytest.raises(TourError, match=r"a\.trec\.json is not the record of a run"):
        read_record(run)


def test_a_message_quotes_little_and_does_not_command_a_terminal():
    message = str(TourError("a.tsv has \x1b[2J\x07 of a\x9bfile\nis\twrong"))
    assert message == "a.tsv has ?[2J? of a?file is?wrong"
    assert len(str(TourError("a.tsv has " + "x" * 2_000_000))) <= 600
