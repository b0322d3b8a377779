import ir_measures
import pytest
from ir_measures import Qrel, ScoredDoc, Success
from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer, has_answers

from tour_pyserini.data.documents import Passage
from tour_pyserini.data.runs import read_retrieved
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_qrels import corpus_qrels, passages_with_answers, retrieved_qrels

QUESTIONS = [Question("q1", "who", ["Ann Lee", "Bo"]), Question("q2", "why", ["x"]), Question("q3", "when", ["1901"])]
TEXTS = {
    "d1": Passage("1901", "It was ann lee."),
    "d2": Passage("Bo", "In 1901, lee and ann."),
    "d3": Passage("", "Bo, 1901"),
}


def test_retrieved_passages_by_hand():
    retrieved = {"q1": ["d2", "d1"], "q3": ["d1", "d2"]}
    found = passages_with_answers(QUESTIONS, retrieved, TEXTS)
    assert found == {"q1": {"d1"}, "q2": set(), "q3": {"d2"}}
    assert list(retrieved_qrels(QUESTIONS, retrieved, found)) == [
        Qrel("q1", "d2", 0),  # an answer is only in the title, and the words of the other are in another order
        Qrel("q1", "d1", 1),
        Qrel("q2", "no-passage", 0),
        Qrel("q3", "d1", 0),
        Qrel("q3", "d2", 1),
    ]


def test_a_corpus_by_hand():
    assert list(corpus_qrels(QUESTIONS, TEXTS)) == [
        Qrel("q1", "d1", 1),
        Qrel("q1", "d3", 1),
        Qrel("q2", "no-passage", 0),
        Qrel("q3", "d2", 1),
        Qrel("q3", "d3", 1),
    ]


def test_each_passage_is_read_once():
    class Counted(dict):
        reads = 0

        def __getitem__(self, docid):
            self.reads += 1
            return super().__getitem__(docid)

    texts = Counted(TEXTS)
    passages_with_answers(QUESTIONS, {"q1": ["d1", "d2"], "q2": ["d1"], "q3": ["d2", "d1"]}, texts)
    assert texts.reads == 2


def test_success_averages_over_all_questions():
    run = [ScoredDoc("q1", "d1", 1.0)]  # nothing for q3, and q2 has no answer anywhere
    for qrels in (corpus_qrels(QUESTIONS, TEXTS), _judged(run)):
        assert ir_measures.calc_aggregate([Success @ 1], list(qrels), run) == {Success @ 1: pytest.approx(1 / 3)}
    nowhere = [ScoredDoc("q2", "d1", 1.0)]
    assert ir_measures.calc_aggregate([Success @ 1], list(_judged(nowhere)), nowhere) == {Success @ 1: 0.0}


def _judged(run):
    retrieved = {hit.query_id: [hit.doc_id] for hit in run}
    return retrieved_qrels(QUESTIONS, retrieved, passages_with_answers(QUESTIONS, retrieved, TEXTS))


def test_retrieved_hits_are_in_the_order_of_evaluation(tmp_path):
    # 1e-9 is lost in single precision, in which trec_eval keeps scores; then the larger docid is first.
    scores = {"d1": 1 + 1e-9, "d2": 1.0, "d3": 0.5, "d4": 2.0}
    (tmp_path / "run").write_text("".join(f"q1 Q0 {docid} 1 {score!r} t\n" for docid, score in scores.items()))
    found = read_retrieved(tmp_path / "run", ["q0", "q1"])
    assert {qid: [hit.doc_id for hit in hits] for qid, hits in found.items()} == {
        "q0": [],
        "q1": ["d4", "d2", "d1", "d3"],
    }
    for position, hit in enumerate(found["q1"], start=1):
        measured = ir_measures.calc_aggregate([ir_measures.RR], [Qrel("q1", hit.doc_id, 1)], found["q1"])
        assert measured[ir_measures.RR] == pytest.approx(1 / position)
    assert [hit.doc_id for hit in read_retrieved(tmp_path / "run", ["q1"], hits=2)["q1"]] == ["d4", "d2"]
    with pytest.raises(TourError, match="has hits for 'q1', which is not in the topics"):
        read_retrieved(tmp_path / "run", ["q0"])
    with pytest.raises(TourError, match="at least 1 hit"):
        read_retrieved(tmp_path / "run", ["q1"], hits=0)


def test_a_real_corpus_agrees_with_brute_force(shared):
    folder = shared / "collections" / "nq-wiki"
    questions = read_questions(folder / "queries.nq-test.jsonl")[:40]
    corpus = open_texts(folder)
    documents = [document for document, _ in zip(corpus.records(), range(400), strict=False)]
    texts = {document.docid: Passage(document.title, document.text) for document in documents}
    tokenizer = SimpleTokenizer()
    expected = {
        (question.qid, document.docid)
        for question in questions
        for document in documents
        if has_answers(document.text, question.answers, tokenizer)
    }
    assert len(expected) > 20
    qrels = list(corpus_qrels(questions, texts))
    assert {(qrel.query_id, qrel.doc_id) for qrel in qrels if qrel.relevance} == expected
    assert {qrel.query_id for qrel in qrels} == {question.qid for question in questions}
