"""Passages with answers: as Pyserini matches them, and judgements made from that."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import ir_measures
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ir_measures import ScoredDoc, Success
from pyserini.eval import evaluate_dpr_retrieval
from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer, has_answers

from tour_pyserini.answers import main as answers_command
from tour_pyserini.convert import main as convert
from tour_pyserini.data.texts import LuceneTexts, Passage, open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation import answer_matching
from tour_pyserini.evaluation.answer_matching import (
    answer_qrels,
    answer_values,
    answers_are_patterns,
    matcher_for,
    passages_with_answers,
    warn_about_unusable_answers,
)

TOKENIZER = SimpleTokenizer()

# Few letters, so that answers are often in the text; accents, composed or not; punctuation and white space.
words = st.text("abAB éÉe\u0301İß.,-'\n\t\u200b1", max_size=6)


@given(st.lists(st.lists(words, max_size=3), max_size=4), st.text("abAB éÉe\u0301İß.,-'\n\t\u200b1", max_size=20))
@example([["a b"], ["b"], ["a"]], "A  B")
@example([[""], ["\u200b"], ["x"]], "")
def test_tokens_match_as_pyserini_matches_them(answers, text):
    expected = {at for at, each in enumerate(answers) if has_answers(text, each, TOKENIZER)}
    assert matcher_for(answers).matches(text) == expected


@given(
    st.lists(st.lists(st.sampled_from(["a.b", "^b", "a$", "(", "é+", "[ab]{2}", "a|c", "", "B\\b"]), max_size=2)),
    st.text("abAB é\n", max_size=12),
)
def test_patterns_match_as_pyserini_matches_them(answers, text):
    expected = {at for at, each in enumerate(answers) if has_answers(text, each, TOKENIZER, regex=True)}
    assert matcher_for(answers, regex=True).matches(text) == expected


def test_a_match_has_a_time_limit_in_any_thread(monkeypatch):
    monkeypatch.setattr(answer_matching, "SECONDS", 0.005)
    slow = matcher_for([[r"(a+)+\b(?=c)$"]], regex=True)
    with pytest.raises(TourError, match=r"\(a\+\)\+.*took more than"):
        slow.matches("a" * 3000 + "b")
    with ThreadPoolExecutor(1) as thread, pytest.raises(TourError, match="took more than"):
        question = Question("q", "who", [r"(a+)+\b(?=c)$"])
        thread.submit(answer_values, ["EM@1"], [question], {"q": ["a" * 3000 + "b"]}, regex=True).result(timeout=60)


def test_topics_with_regular_expressions_are_known_by_name():
    named = "dpr-curated-test data/topics.dpr.curated.test.txt CuratedTREC-test.json TREC-test.tsv trec-test.qa.csv"
    others = "topics.nq.trec trec-dl.tsv dpr-nq-test curated/nq.txt electrecord.jsonl"
    assert all(map(answers_are_patterns, named.split())) and not any(map(answers_are_patterns, others.split()))


def test_unusable_answers_are_logged(caplog):
    questions = [Question("q1", "who", ["fine", ""]), Question("q2", "why", ["fine", "("])]
    warn_about_unusable_answers(questions)
    warn_about_unusable_answers(questions, regex=True)
    assert [record.args[:2] for record in caplog.records] == [("", "q1"), ("(", "q2")]


def test_titles_are_not_part_of_the_text():
    contents = '"Ann Lee"\nShe lived.'
    raw = json.dumps({"id": "7", "contents": contents})
    stored = SimpleNamespace(docid=lambda: "7", raw=lambda: raw, contents=lambda: contents)
    searcher = SimpleNamespace(num_docs=1, doc=lambda number: stored)
    question = [Question("q", "who", ["Ann Lee", "lived"])]
    assert passages_with_answers(question, {"d": Passage("Ann Lee", "x"), "e": "Ann\nLee"}) == {"q": ["e"]}
    assert passages_with_answers(question, LuceneTexts(searcher, "index")) == {"q": ["7"]}
    with pytest.raises(TourError, match="white space"):
        passages_with_answers(question, {"a b": "text"})


@pytest.mark.parametrize("retrieved", [None, {str(q): [f"d{q + step}" for step in range(30)] for q in range(600)}])
def test_the_number_of_processes_does_not_change_the_matches(retrieved):
    questions = [Question(str(number), "who", [str(number % 60)]) for number in range(600)]
    texts = {f"d{at}": f"{at % 60} and {at % 7}" for at in range(630)}
    alone, together = (
        passages_with_answers(questions, texts, retrieved, regex=retrieved is None, processes=n) for n in (1, 2)
    )
    assert alone == together and list(alone) == [question.qid for question in questions]
    assert alone["8"] == (["d8"] if retrieved else [docid for docid, text in texts.items() if "8" in text])


QUESTIONS = [Question("q1", "who", ["Ann Lee", "Bo"]), Question("q2", "why", ["x"]), Question("q3", "when", ["1901"])]
TEXTS = {
    "d1": Passage("1901", "It was ann lee."),
    "d2": Passage("Bo", "In 1901, lee and ann."),
    "d3": Passage("", "Bo, 1901"),
}


@pytest.mark.parametrize(
    ("retrieved", "expected"),
    [
        # For q1, d2 has an answer in the title only, and the words of the other in another order.
        ({"q1": ["d2", "d1"], "q3": ["d1", "d2"]}, "q1 d2 0, q1 d1 1, q2 no-passage 0, q3 d1 0, q3 d2 1"),
        (None, "q1 d1 1, q1 d3 1, q2 no-passage 0, q3 d2 1, q3 d3 1"),
    ],
)
def test_judgements_by_hand_average_over_all_questions(retrieved, expected):
    qrels = list(answer_qrels(QUESTIONS, passages_with_answers(QUESTIONS, TEXTS, retrieved), retrieved))
    assert ", ".join(f"{qrel.query_id} {qrel.doc_id} {qrel.relevance}" for qrel in qrels) == expected
    run = [ScoredDoc("q1", "d1", 1.0)]  # nothing for q3, and q2 has no answer anywhere
    assert ir_measures.calc_aggregate([Success @ 1], qrels, run) == {Success @ 1: pytest.approx(1 / 3)}


CUTOFFS = (1, 5, 20, 100)


@pytest.mark.parametrize(
    ("topics", "regex"), [("nq-wiki/queries.nq-test.jsonl", False), ("odqa-topics/topics.dpr.curated.test.txt", True)]
)
def test_pyserinis_evaluation_gives_the_same_accuracies(shared, tmp_path, capsys, topics, regex):
    """On 200 questions, with our judgements and with its own."""
    chance, folder = random.Random(7), shared / "collections"
    lines = (folder / topics).read_text(encoding="utf-8").splitlines(keepends=True)
    topics, corpus = str(tmp_path / topics.split("/")[1]), str(folder / "nq-wiki" / "corpus.jsonl")
    Path(topics).write_text("".join(lines[:200]), encoding="utf-8")
    run = tmp_path / "run"
    docids, lines = chance.sample(list(open_texts(corpus)), 600), []
    for at, question in enumerate(read_questions(topics)):  # 120 passages, with ties; none for every tenth question
        for docid in chance.sample(docids, 120) if at % 10 else ():
            lines.append(f"{question.qid} Q0 {docid} 1 {chance.randrange(100) / 8} t\n")
    chance.shuffle(lines)
    run.write_text("".join(lines))
    options = ["--topics", topics, "--corpus", corpus, "--processes", "1"]
    answers_command([*options, "--runs", str(run), "--output", str(tmp_path / "qrels")])
    convert(["json", *options, "--run", str(run), "--output", str(tmp_path / "run.json")])

    qrels, hits = ir_measures.read_trec_qrels(str(tmp_path / "qrels")), ir_measures.read_trec_run(str(run))
    means = ir_measures.calc_aggregate([Success @ cutoff for cutoff in CUTOFFS], list(qrels), list(hits))
    ours = {f"Top{cutoff}": f"{means[Success @ cutoff]:.4f}" for cutoff in CUTOFFS}
    assert 0 < means[Success @ 1] < means[Success @ 100] < 1
    retrieval = json.loads((tmp_path / "run.json").read_text())

    def accuracies(questions):
        (tmp_path / "some.json").write_text(json.dumps(questions))
        capsys.readouterr()
        evaluate_dpr_retrieval.evaluate_retrieval(str(tmp_path / "some.json"), list(CUTOFFS), regex)
        return {line.split("\t")[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}

    assert accuracies(retrieval) == ours
    for context in (context for question in retrieval.values() for context in question["contexts"]):
        del context["has_answer"]  # without our judgements
    assert accuracies(retrieval) == ours
