"""The embedded collection."""

import json
from collections import Counter

from tour_pyserini.data.demo_collection import CORPUS, QRELS, QUERIES
from tour_pyserini.data.judgements import read_qrels


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
