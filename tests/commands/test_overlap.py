"""Splits of test questions by their overlap with training questions."""

import json

import pytest

from tour_pyserini.data.judgements import read_splits
from tour_pyserini.errors import TourError
from tour_pyserini.overlap import main, split_by_overlap


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
    assert (
        "3 questions compared with 2 training questions: 1 answer_overlap_only, 1 no_overlap, 1 question_overlap"
        in capsys.readouterr().err
    )


def test_splits_from_python(tmp_path):
    topics = write(tmp_path / "a.jsonl", ("q1", "who", ["x"]), ("q2", "what", ["y"]))
    train = write(tmp_path / "b.jsonl", ("t1", "Who?", ["z"]))
    done = split_by_overlap(topics, [train], tmp_path / "splits.tsv")
    assert done == (tmp_path / "splits.tsv", 2, 1, {"no_overlap": 1, "question_overlap": 1})
    assert (tmp_path / "splits.tsv").read_text() == "q1\tquestion_overlap\nq2\tno_overlap\n"


def test_articles_alone_are_no_overlap(tmp_path):
    train = write(tmp_path / "a.jsonl", ("t1", "The", ["An", "a ?"]))
    topics = write(tmp_path / "b.jsonl", ("q1", "A?", ["x"]), ("q2", "which band", ["The The"]))
    main(["--topics", topics, "--train", train, "--output", str(tmp_path / "splits.tsv")])
    assert read_splits(tmp_path / "splits.tsv", judged=["q1", "q2"]) == {"no_overlap": {"q1", "q2"}}


def test_inputs_are_never_overwritten(tmp_path):
    topics = write(tmp_path / "c.jsonl", ("q1", "who", ["x"]))
    with pytest.raises(TourError, match="would overwrite the input"):
        main(["--topics", topics, "--train", topics, "--output", topics])
