"""Splits by what test questions share with training questions."""

import json

import pytest

from tour_pyserini.data.splits import read_splits
from tour_pyserini.errors import TourError
from tour_pyserini.overlap import main


def write(path, *questions):
    lines = [{"_id": qid, "text": text, "answers": answers} for qid, text, answers in questions]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_question_is_in_one_split(tmp_path, capsys):
    train = write(tmp_path / "a.jsonl", ("t1", "Who sang Hello?", ["Adele"]))
    more = write(tmp_path / "b.jsonl", ("t1", "which river", ["the Rhine", "Rhine river"]))
    asked = [
        ("q1", "who sang hello", ["Adele", "Adele Adkins"]),
        ("q2", "where is Cologne", ["on the Rhine", "Rhine"]),
        ("q3", "what is an answer", ["none of those"]),
    ]
    topics = write(tmp_path / "c.jsonl", *asked)
    main(["--topics", topics, "--train", train, more, "--output", str(tmp_path / "splits.tsv")])
    splits = read_splits(tmp_path / "splits.tsv", judged=["q1", "q2", "q3"])
    assert splits == {"question_overlap": {"q1"}, "answer_overlap_only": {"q2"}, "no_overlap": {"q3"}}
    assert "3 questions against 2: 1 answer_overlap_only, 1 no_overlap, 1 question_overlap" in capsys.readouterr().err


def test_articles_have_nothing_in_common(tmp_path):
    train = write(tmp_path / "a.jsonl", ("t1", "The", ["An", "a ?"]))
    topics = write(tmp_path / "b.jsonl", ("q1", "A?", ["x"]), ("q2", "which band", ["The The"]))
    main(["--topics", topics, "--train", train, "--output", str(tmp_path / "splits.tsv")])
    assert read_splits(tmp_path / "splits.tsv", judged=["q1", "q2"]) == {"no_overlap": {"q1", "q2"}}


def test_an_input_is_not_written_over(tmp_path):
    topics = write(tmp_path / "c.jsonl", ("q1", "who", ["x"]))
    with pytest.raises(TourError):
        main(["--topics", topics, "--train", topics, "--output", topics])
