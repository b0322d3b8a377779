"""Judgements, runs, retrieval results and questions as other files."""

import json

import pytest

from tour_pyserini.convert import convert, main
from tour_pyserini.data.judgements import read_splits
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\n")
    (tmp_path / "topics.tsv").write_text("who\t['Ann Lee']\nwhen\t['1901']\nwhy\t['x']\n")
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "", "text": "In 1900"}\n{"_id": "b", "title": "", "text": "ann lee"}\n'
    )
    (tmp_path / "one.trec").write_text("0 Q0 a 1 2.0 t\n0 Q0 b 2 1.0 t\n1 Q0 a 1 1.0 t\n")
    return tmp_path


def test_beir_qrels_become_trec_qrels(files):
    main(["qrels", "--input", "qrels.tsv", "--output", "out/qrels.trec"])
    assert (files / "out" / "qrels.trec").read_text() == "q1 0 a 1\nq2 0 b 2\n"
    done = convert("qrels", {"input": "out/qrels.trec", "output": files / "again.trec"})
    assert done == (files / "again.trec", {"judgements": 2, "queries": 2})
    assert (files / "again.trec").read_text() == (files / "out" / "qrels.trec").read_text()


TO_JSON = ["json", "--topics", "topics.tsv", "--corpus", "corpus.jsonl", "--run", "one.trec", "--output", "one.json"]


@pytest.mark.parametrize("layout", ["pyserini", "dpr"])
def test_a_run_converted_to_json_and_back_is_the_same(files, capsys, layout):
    main([*TO_JSON, "--layout", layout])
    assert capsys.readouterr().err.startswith("one.json: 3 questions, 1 with an answer, 3 hits\n")
    main(["run", "--input", "one.json", "--output", "back.trec"])
    assert capsys.readouterr().err.startswith("back.trec: 2 questions, 3 hits\n")
    assert (files / "back.trec").read_text() == (files / "one.trec").read_text().replace(" t\n", " tour_pyserini\n")


def test_a_run_keeps_the_order_of_the_json(files, caplog):
    scores = [("1", "1"), (1.0, 2.0), (16777217.0, 16777216.0), (0.5, 0.25)]  # the third: equal in single precision
    contexts = [[{"docid": docid, "score": score} for docid, score in zip("ab", two, strict=True)] for two in scores]
    listed = {str(at): {"contexts": each} for at, each in enumerate(contexts)}
    (files / "in.json").write_text(json.dumps(listed))
    main(["run", "--input", "in.json", "--output", "back.trec"])
    hits = read_rankings("back.trec", listed)
    assert all([hit.doc_id for hit in found] == ["a", "b"] for found in hits.values())
    assert (files / "back.trec").read_text().endswith("3 Q0 a 1 0.5 tour_pyserini\n3 Q0 b 2 0.25 tour_pyserini\n")
    assert ["3 of 4 questions" in record.getMessage() for record in caplog.records] == [True]


def test_a_run_becomes_requests_of_rank_llm_and_comes_back(files):
    (files / "asked.tsv").write_text("0\twho\n1\twhen\n2\twhy\n")
    main(["requests", "--topics", "asked.tsv", "--corpus", "corpus.jsonl", "--run", "one.trec", "--output", "r.jsonl"])
    first, second = map(json.loads, (files / "r.jsonl").read_text().splitlines())
    assert first["query"] == {"text": "who", "qid": "0"} and second["query"]["qid"] == "1"
    assert first["candidates"][1] == {"docid": "b", "score": 1.0, "doc": {"text": "ann lee"}}
    main(["lists", "--input", "r.jsonl", "--output", "lists"])
    assert (files / "lists" / "run.trec").read_text() == (files / "one.trec").read_text().replace(
        " t\n", " tour_pyserini\n"
    )
    assert dict(read_topics(str(files / "lists" / "queries.jsonl"))) == {"0": "who", "1": "when"}
    assert dict(open_texts(str(files / "lists" / "corpus.jsonl"))) == {"a": "In 1900", "b": "ann lee"}


def test_candidates_of_rank_llm_keep_their_order_and_wrong_lines_are_named(files):
    documents = {7: {"contents": "x", "title": "T"}, 8: {"segment": "y"}}
    candidates = [{"docid": docid, "score": 0.5, "doc": doc} for docid, doc in documents.items()]
    lines = [{"query": {"text": "q", "qid": 3}, "candidates": candidates}, {"query": "q"}]
    (files / "r.jsonl").write_text(json.dumps(lines[0]) + "\n")
    main(["lists", "--input", "r.jsonl", "--output", "lists"])
    assert (files / "lists" / "run.trec").read_text().splitlines() == [
        "3 Q0 7 1 2.0 tour_pyserini",
        "3 Q0 8 2 1.0 tour_pyserini",
    ]
    assert dict(open_texts(str(files / "lists" / "corpus.jsonl"))) == {"7": "T x", "8": "y"}
    spaced = {**lines[0], "candidates": [{**candidates[0], "docid": "a b"}]}
    for wrong, word in ((lines[1], "rank_llm"), (spaced, "'a b'")):
        (files / "r.jsonl").write_text("\n".join(map(json.dumps, [lines[0], wrong])))
        with pytest.raises(TourError, match=f"line 2 .*{word}"):
            main(["lists", "--input", "r.jsonl", "--output", "other"])
        assert not (files / "other").exists() or not any((files / "other").iterdir())


def questions(path, *asked):
    lines = [{"_id": qid, "text": text, "answers": answers} for qid, text, answers in asked]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_question_is_in_one_split(files, capsys):
    train = questions(files / "a.jsonl", ("t1", "Who sang Hello?", ["Adele"]))
    # Articles alone are no overlap.
    more = questions(files / "b.jsonl", ("t1", "which river", ["the Rhine", "Rhine river"]), ("t2", "The", ["a ?"]))
    asked = [
        ("q1", "who sang hello", ["Adele", "Adele Adkins"]),
        ("q2", "where is Cologne", ["on the Rhine", "Rhine"]),
        ("q3", "what is an answer", ["none of those"]),
        ("q4", "A?", ["The The"]),
    ]
    topics = questions(files / "c.jsonl", *asked)
    main(["splits", "--topics", topics, "--train", train, more, "--output", "splits.tsv"])
    splits = read_splits(files / "splits.tsv", judged=["q1", "q2", "q3", "q4"])
    assert splits == {"question_overlap": {"q1"}, "answer_overlap_only": {"q2"}, "no_overlap": {"q3", "q4"}}
    said = "4 questions, 3 training questions, 1 answer_overlap_only, 2 no_overlap, 1 question_overlap"
    assert said in capsys.readouterr().err
    done = convert("splits", {"topics": topics, "train": [train], "output": files / "splits.tsv"})
    assert done.counts["no_overlap"] == 3 and done.output == files / "splits.tsv"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--input", "one.trec", "--output", "x"], "not JSON"),
        (["run", "--input", "empty.json", "--output", "x"], "no hits"),
        ([*TO_JSON, "--output", "topics.tsv"], "overwrite"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(files, refused, words, says):
    (files / "empty.json").write_text('{"0": {"contexts": []}}')
    refused(main, words, says)
