"""An experiment on a phrase index: answers are measured beside passages, on all questions and on splits."""

import json

import pytest
from small_experiment import Small
from tiny_phrases import DOCUMENTS, save_encoder, save_reranker, write_corpus

from tour_pyserini.data.run_records import read_record
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import exact_match
from tour_pyserini.experiments import running

ANSWERS = {"q1": ["Wilhelm Röntgen"], "q2": ["Rhine", "the Rhine"], "q3": ["1901"]}
TEXTS = {"q1": "who got the first prize", "q2": "which river", "q3": "when was the first prize"}

NQ = {"corpus": "${DATA}/corpus.jsonl", "topics": "${DATA}/topics.jsonl", "splits": "${DATA}/splits.tsv"}
DEFINITION = {
    "title": "Phrases",
    "measures": ["EM@1", "Success@2", "F1@3"],
    "hits": 6,
    "collections": {"nq": NQ},
    "encoders": {"tiny": {"index": {"phrases": True, "encoder": "${DATA}/encoder", "threads": 1}}},
    "indexes": {"flat": {"flags": {"filter-threshold": float("-inf")}}},
    "rerankers": {"tiny": {"flags": {"reranker": "${DATA}/reranker", "reranker-threads": 1}}},
    "conditions": {
        "dense": {"flags": {"method": "dense"}},
        "hard": {"flags": {"preset": "paper-odqa-phrases", "method": "hard", "depth": 3}},
    },
    "tables": {"main": {"conditions": ["dense", "hard"], "baselines": ["dense"]}},
}


class Case(Small):
    def command(self, *more, **changes):
        self.write(DEFINITION | changes)
        return super().command(*more)


@pytest.fixture
def case(tmp_path, one_thread, own_cache):
    save_encoder(tmp_path / "encoder", pooling="mean")
    save_reranker(tmp_path / "reranker")
    write_corpus(tmp_path / "corpus.jsonl")
    lines = [{"_id": qid, "text": text, "answers": ANSWERS[qid]} for qid, text in TEXTS.items()]
    (tmp_path / "topics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "splits.tsv").write_text("q1\tseen\nq2\tnew\nq3\tnew\n")
    return Case(tmp_path)


def lines_of(table, title):
    start = next(number for number, line in enumerate(table) if line.startswith(title))
    return [line.split() for line in table[start + 1 :]]


def test_answers_are_measured_beside_passages(case, capsys, monkeypatch):
    assert case.command() == 0
    out = capsys.readouterr().out.splitlines()
    record = read_record(case.runs / "nq.tiny.flat.dense.trec.gz")
    assert {len(predicted) for predicted in record["answers"].values()} == {3}
    right = {qid: exact_match(predicted[0], ANSWERS[qid]) for qid, predicted in record["answers"].items()}
    rows = {line[0]: line for line in lines_of(out, "main: nq, tiny, flat") if line}
    assert float(rows["dense"][1]) == pytest.approx(sum(right.values()) / 3, abs=1e-4)
    assert not list(case.runs.glob("*.answers.jsonl"))  # the first ones are in the record
    by_split = [line for line in lines_of(out, "By split: nq, tiny, flat") if len(line) == 6]
    expected = ["seen dense 1", "seen hard 1", "new dense 2", "new hard 2"]
    assert [" ".join(line[:3]) for line in by_split[1:]] == expected
    assert float(by_split[1][3]) == right["q1"]

    # Nothing is searched again, unless a measure needs more answers than the record has.
    with monkeypatch.context() as patch:
        patch.setattr(running, "search", None)
        assert case.command() == 0
        with pytest.raises(TypeError):
            case.command(measures=["EM@4", "Success@2"])
    capsys.readouterr()
    assert case.command(measures=["EM@4", "Success@2"]) == 0

    # The archive has the answers too; where no corpus is a file, the runs themselves are judged, and must be there.
    before, folder = capsys.readouterr().out, {"nq": {**NQ, "corpus": "${DATA}"}}
    assert case.command("--report", measures=["EM@4", "Success@2"], collections=folder) == 0
    assert capsys.readouterr().out == before
    assert case.command("--pack", measures=["EM@4", "Success@2"]) == 0
    for run in case.runs.glob("*.trec.gz*"):
        run.unlink()
    assert case.command("--report", measures=["EM@4", "Success@2"]) == 0
    assert capsys.readouterr().out == before
    with pytest.raises(TourError, match="cannot be judged"):
        case.command("--report", collections=folder)


def test_a_limit_takes_some_of_the_questions_judged_by_their_answers(case):
    assert case.command("--condition", "dense", collections={"nq": {**NQ, "limit": 2}}) == 0
    assert list(read_record(case.runs / "nq.tiny.flat.dense.trec.gz")["answers"]) == ["q1", "q2"]
    judged = [line.split() for line in (case.runs / "nq.qrels").read_text().splitlines()]
    docids = {one["_id"] for one in DOCUMENTS if "Röntgen" in one["text"]}
    assert {docid for qid, _, docid, grade in judged if qid == "q1" and grade == "1"} == docids


def test_an_index_of_other_phrases_is_refused(case):
    assert case.command("--condition", "dense") == 0
    with pytest.raises(TourError, match="built with another filter_threshold; remove it"):
        case.command("--condition", "hard", indexes={"flat": {"flags": {"filter-threshold": 0.5}}})
    with pytest.raises(TourError, match="built with another kind of index"):
        case.command("--condition", "hard", indexes={"flat": {"flags": {"factory": "IVF2,Flat"}}})
