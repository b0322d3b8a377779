"""Accuracies of ir-measures on our judgements equal those of Pyserini's own evaluation of the same run."""

import json
import random
from pathlib import Path

import ir_measures
import pytest
from ir_measures import Success
from pyserini.eval import evaluate_dpr_retrieval

from tour_pyserini.answers import main as answers
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.dpr_json import main as dpr_json

CUTOFFS = (1, 5, 20, 100)


def synthetic_run(path, questions, docids, chance):
    """120 passages per question, with ties, shuffled; none for every tenth question."""
    lines = []
    for at, question in enumerate(questions):
        for docid in chance.sample(docids, 120) if at % 10 else ():
            lines.append(f"{question.qid} Q0 {docid} 1 {chance.randrange(100) / 8} t\n")
    chance.shuffle(lines)
    path.write_text("".join(lines))
    return path


def pyserini_accuracies(path, capsys, *, regex):
    """The accuracies that Pyserini prints, by cutoff."""
    capsys.readouterr()
    evaluate_dpr_retrieval.evaluate_retrieval(str(path), list(CUTOFFS), regex)
    return {line.split("\t")[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize(
    ("topics", "regex"),
    [("nq-wiki/queries.nq-test.jsonl", False), ("odqa-topics/topics.dpr.curated.test.txt", True)],
)
def test_pyserini_agrees_on_every_question(shared, tmp_path, capsys, topics, regex):
    chance = random.Random(7)
    folder = shared / "collections"
    lines = (folder / topics).read_text(encoding="utf-8").splitlines(keepends=True)
    topics, corpus = str(tmp_path / topics.split("/")[1]), str(folder / "nq-wiki" / "corpus.jsonl")
    Path(topics).write_text("".join(lines[:200]), encoding="utf-8")
    docids = chance.sample(list(open_texts(corpus)), 600)
    run = synthetic_run(tmp_path / "run", read_questions(topics), docids, chance)
    options = ["--topics", topics, "--corpus", corpus, "--processes", "1"]
    answers([*options, "--runs", str(run), "--output", str(tmp_path / "qrels")])
    dpr_json([*options, "--run", str(run), "--output", str(tmp_path / "run.json")])

    measures = {f"Top{cutoff}": Success @ cutoff for cutoff in CUTOFFS}
    qrels, hits = (
        list(read(str(tmp_path / name)))
        for name, read in (("qrels", ir_measures.read_trec_qrels), ("run", ir_measures.read_trec_run))
    )
    means = ir_measures.calc_aggregate(measures.values(), qrels, hits)
    ours = {name: f"{means[measure]:.4f}" for name, measure in measures.items()}
    assert 0 < means[Success @ 1] < means[Success @ 100] < 1
    assert pyserini_accuracies(tmp_path / "run.json", capsys, regex=regex) == ours

    # Without our judgements, Pyserini makes its own: the results are equal, also question by question.
    retrieval = json.loads((tmp_path / "run.json").read_text())
    for question in retrieval.values():
        for context in question["contexts"]:
            del context["has_answer"]
    (tmp_path / "bare.json").write_text(json.dumps(retrieval))
    assert pyserini_accuracies(tmp_path / "bare.json", capsys, regex=regex) == ours
    by_question = {}
    for metric in ir_measures.iter_calc(measures.values(), qrels, hits):
        by_question.setdefault(metric.query_id, {})[f"Top{metric.measure['cutoff']}"] = f"{metric.value:.4f}"
    assert set(by_question) == set(retrieval)
    for qid in chance.sample(sorted(retrieval), 60):
        (tmp_path / "one.json").write_text(json.dumps({qid: retrieval[qid]}))
        assert pyserini_accuracies(tmp_path / "one.json", capsys, regex=regex) == by_question[qid], qid
