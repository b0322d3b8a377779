"""The embedded collection."""

import json

from tour_pyserini.data.demo_collection import CORPUS, QRELS, QUERIES
from tour_pyserini.data.judgements import read_qrels


def test_every_question_of_the_embedded_collection_has_a_passage_with_its_answer():
    corpus, queries = ([json.loads(line) for line in file.read_text().splitlines()] for file in (CORPUS, QUERIES))
    texts = {document["_id"]: document["text"] for document in corpus}
    assert {judgement.query_id for judgement in read_qrels(QRELS)} == {query["_id"] for query in queries}
    answers = {query["_id"]: query["answers"] for query in queries}
    for judgement in read_qrels(QRELS):
        passage = texts[judgement.doc_id].lower()
        assert any(answer.lower() in passage for answer in answers[judgement.query_id]), judgement
