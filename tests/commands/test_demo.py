"""The embedded collection is what it claims to be."""

import json
from collections import Counter

from tour_pyserini.data.qrels_file import read_qrels
from tour_pyserini.demo.collection import CORPUS, QRELS, QUERIES


def test_collection_is_sound():
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


def test_paths_are_told_as_text_and_as_a_picture(tmp_path):
    from tour_pyserini.evaluation.query_path import as_text, draw, most_improved_query, read_paths

    steps = [
        {"qid": "q1", "docids": ["a", "b"], "scores": [0.0, 5.0], "labels": [0.0, 1.0], "cosine": 1.0, "stopped": None},
        {"qid": "q1", "docids": ["b", "c"], "scores": [5.0, 1.0], "labels": [1.0, 0.0], "cosine": 0.9,
         "stopped": "agreement"},
        {"qid": "q2", "docids": ["c"], "scores": [5.0], "labels": [1.0], "cosine": 1.0, "stopped": "agreement"},
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
