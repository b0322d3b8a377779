"""TouR over phrases: as over their vectors in memory, and as a searcher of passages."""

import numpy as np
import pytest
from tiny_phrases import DOCUMENTS, build_phrases, save_encoder, write_corpus
from toy_collection import HashReranker

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher, TourPhraseSearcher
from tour_pyserini.phrases.reranker_input import RerankerInput
from tour_pyserini.rerankers.score_cache import CachedReranker
from tour_pyserini.searchers.searcher import TourSearcher

QUERIES = ["who got the first prize", "which river runs", "the king of the moon"]
IDS = ["q1", "q2", "q3"]
MANY = [
    {**one, "_id": f"{one['_id']}{letter}", "text": one["text"].replace("the", f"the {letter}")}
    for letter in "abc"
    for one in DOCUMENTS
]
CONFIG = TourConfig(method="hard", depth=5, iterations=3, learning_rate=0.5, similarity_scale=1.0, early_stopping=False)


@pytest.fixture(scope="module")
def inner(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("phrases")
    encoder = save_encoder(folder / "encoder", pooling="mean")
    corpus = write_corpus(folder / "corpus.jsonl", MANY)
    return PhraseSearcher.open(str(build_phrases(encoder, corpus, folder / "i")), str(corpus), encoder)


def test_dense_is_the_phrase_searcher(inner):
    searcher = TourPhraseSearcher(inner, config=TourConfig.preset("dense"))
    vectors, found = searcher.batch_phrases(QUERIES, IDS, k=7)
    plain = inner.batch_search(QUERIES, IDS, k=7)
    for q_id in IDS:
        for hit, expected in zip(found[q_id], plain[q_id], strict=True):
            assert (hit.docid, hit.begin, hit.text) == (expected.docid, expected.begin, expected.text)
            assert hit.score == pytest.approx(expected.score, abs=1e-4)
    assert np.array_equal(vectors, inner.query_encoder.encode_batch(QUERIES))


@pytest.mark.parametrize("method", ["hard", "soft"])
def test_one_update_is_that_of_the_five_best_phrases(inner, method):
    reranker, shown = HashReranker(), RerankerInput(context="1", separator=" | ")
    config = CONFIG.replace(method=method, iterations=1)
    searcher = TourPhraseSearcher(inner, reranker, config, reranker_input=shown)
    vectors, _ = searcher.batch_phrases(QUERIES[:1], IDS[:1], k=5)
    hits = inner.search(QUERIES[0], k=5)
    passages = [shown(*inner.texts[hit.docid].parts, hit.begin, hit.end) for hit in hits]
    assert all("[S] " in passage and " [E]" in passage for passage in passages)
    assert reranker.asked[:5] == [(QUERIES[0], passage) for passage in passages]
    encode, predict = inner.query_encoder.encode, HashReranker().predict
    alone = TourSearcher.from_vectors(np.stack([hit.vector for hit in hits]), passages, encode, predict, config)
    assert vectors == pytest.approx(alone.batch_run(QUERIES[:1], IDS[:1], k=5)[0], abs=1e-4)
    assert vectors[0] != pytest.approx(encode(QUERIES[0]), abs=1e-2)


def test_no_phrase_is_labelled_twice_and_scores_come_from_the_cache(inner, tmp_path):
    scorer = HashReranker()
    reranker = CachedReranker(scorer, tmp_path / "scores.sqlite")
    searcher = TourPhraseSearcher(inner, reranker, CONFIG.replace(final_list="union", score_weight=0.3))
    _, found = searcher.batch_phrases(QUERIES, IDS, k=30)
    assert searcher.costs.updates == 9
    assert searcher.costs.scored == searcher.costs.pairs == len(set(scorer.asked)) == len(scorer.asked)
    again = HashReranker()
    other = TourPhraseSearcher(inner, CachedReranker(again, tmp_path / "scores.sqlite"), searcher.config)
    assert other.batch_phrases(QUERIES, IDS, k=30)[1] == found and not again.asked


def test_passages_have_the_score_of_their_best_phrase(inner):
    predicted = {}
    searcher = TourPhraseSearcher(inner, HashReranker(), CONFIG, predict=predicted.__setitem__)
    hits = searcher.batch_search(QUERIES, IDS, k=8)
    for q_id in IDS:
        assert len(hits[q_id]) == 8 == len({hit.docid for hit in hits[q_id]})
        phrases = predicted[q_id]
        assert len(phrases) == 8 and hits[q_id][0].score == phrases[0].score
        order = list(dict.fromkeys(phrase.docid for phrase in phrases))
        assert [hit.docid for hit in hits[q_id]][: len(order)] == order
    for found in (searcher.search(QUERIES[0], k=8, deadline=600), [*searcher.rounds(QUERIES[0], k=8)][-1].hits):
        assert [hit.docid for hit in found] == [hit.docid for hit in hits["q1"]]


def test_passages_as_units_are_labelled_as_passages(inner):
    reranker = HashReranker()
    searcher = TourPhraseSearcher(
        inner, reranker, CONFIG, unit="passage", reranker_input=RerankerInput(context="passage")
    )
    _, found = searcher.batch_phrases(QUERIES, IDS, k=6)
    assert all(len({hit.docid for hit in found[q_id]}) == 6 for q_id in IDS)
    assert {passage for _, passage in reranker.asked} <= set(inner.texts.values())
    with pytest.raises(TourError, match="have no vectors"):
        searcher.batch_search(["x"], ["q"], return_vector=True)
