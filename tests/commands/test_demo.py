"""The embedded collection, and query paths as text and picture."""

import json
from collections import Counter

from tour_pyserini.data.demo_collection import CORPUS, QRELS, QUERIES
from tour_pyserini.data.qrels_file import read_qrels


def test_every_question_of_the_embedded_collection_has_a_passage_with_its_answer():
    corpus = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    queries = [json.loads(line) for line in QUERIES.read_text().splitlines()]
    texts = {document["_id"]: document["text"] for document in corpus}
    relevant = Counter(judgement.query_id for judgement in read_qrels(QRELS))
    assert len(texts) == len(corpus) == len(set(texts.values())) >= 400
    assert len({query["text"] for query in queries}) == len(queries) >= 150
    assert set(relevant) == {query["_id"] for query in queries}
    answers = {query["_id"]: query["answers"] for query in queries}
    for judgement in read_qrels(QRELS):
        passage = texts[judgement.doc_id].lower()
        assert any(answer.lower() in passage for answer in answers[judgement.query_id]), judgement


def test_a_query_path_as_text_and_as_a_picture(tmp_path):
    from tour_pyserini.evaluation.query_path import as_text, draw, most_improved_query, read_paths

    steps = [
        {"qid": "q1", "docids": ["a", "b"], "labels": [0.0, 5.0], "target": [0.0, 1.0], "cosine": 1.0, "stop": None},
        {"qid": "q1", "docids": ["b", "c"], "labels": [5.0, 1.0], "target": [1.0, 0.0], "cosine": 0.9,
         "stop": "agreement"},
        {"qid": "q2", "docids": ["c"], "labels": [5.0], "target": [1.0], "cosine": 1.0, "stop": "agreement"},
    ]  # fmt: skip
    (tmp_path / "trace").write_text("".join(json.dumps(step) + "\n" for step in steps))
    paths = read_paths(tmp_path / "trace")
    assert most_improved_query(paths, {"q1": {"b"}, "q2": {"c"}}) == "q1"
    lines = as_text(paths["q1"], "why", {"a": "A", "b": "B", "c": "C"}, {"b"}).splitlines()
    assert lines[0] == "query: why"
    assert lines[1].startswith("t = 0")
    assert lines[3].split()[:3] == ["2.", "*", "b"]
    assert lines[-1].split()[:3] == ["2.", "+", "c"]
    draw(paths["q1"], "why", {"b"}, tmp_path / "path.png")
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")
