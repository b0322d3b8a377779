"""Searching phrases: the same lists as brute force over all spans."""

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.phrases import phrase_searcher as module
from tour_pyserini.phrases.phrase_index import ENDS, ROW, STARTS, PhraseIndex
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher


def make_index(words, vectors, roles, *, dtype="float32", factory=None):
    """An index of several passages; `words` has, for each passage, the word number of each of its rows."""
    rows = np.zeros(len(vectors), dtype=ROW)
    rows["passage"] = np.repeat(np.arange(len(words)), [len(numbers) for numbers in words])
    rows["first"] = rows["last"] = np.concatenate(words)
    rows["roles"] = roles
    vectors = np.asarray(vectors, dtype=dtype)
    index = PhraseIndex.in_memory(rows, vectors, [f"p{i}" for i in range(len(words))])
    if factory:
        other = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        other.train(vectors.astype(np.float32))
        other.add(vectors.astype(np.float32))
        other.nprobe = 4
        index = index._replace(index=other)
    return index


def oracle(index, query, max_words):
    """All phrases that are the best with their start or with their end, as {(start, end): score}; plain loops."""
    start_query, end_query = query.reshape(2, -1).astype(np.float64)
    spans = {}
    for s, start in enumerate(index.rows):
        for e in range(s, len(index.rows)):
            end = index.rows[e]
            length = int(end["last"]) - int(start["first"]) + 1
            has_roles = start["roles"] & STARTS and end["roles"] & ENDS
            if has_roles and start["passage"] == end["passage"] and length <= max_words:
                spans[s, e] = float(index.vectors[s] @ start_query) + float(index.vectors[e] @ end_query)
    best = {}
    for side in (0, 1):
        for span, score in spans.items():
            key = (side, span[side])
            if key not in best or (score, span[0] - span[1]) > (spans[best[key]], best[key][0] - best[key][1]):
                best[key] = span
    return {span: spans[span] for span in best.values()}


@st.composite
def indexes_with_queries(draw):
    """An index and queries of small integers: inner products are exact and ties are common."""
    words = []
    for _ in range(draw(st.integers(1, 5))):
        steps = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
        numbers = np.cumsum([max(1, step) if i and steps[i - 1] == 0 else step for i, step in enumerate(steps)])
        words.append(numbers)
    count = sum(map(len, words))
    numbers = st.integers(-3, 3)
    vectors = draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=count, max_size=count))
    roles = draw(st.lists(st.sampled_from([STARTS, ENDS, STARTS | ENDS]), min_size=count, max_size=count))
    queries = draw(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=3))
    dtype = draw(st.sampled_from(["float16", "float32"]))
    return make_index(words, vectors, roles, dtype=dtype), np.array(queries, dtype=np.float32)


@settings(max_examples=80, deadline=None)
@given(
    indexes_with_queries(), st.integers(1, 6), st.integers(1, 8), st.sampled_from([1, 2, 1024]), st.sampled_from([1, 3])
)
def test_a_flat_index_finds_the_same_phrases_as_brute_force(index_with_queries, max_words, k, fetch, completed):
    index, queries = index_with_queries
    searcher = PhraseSearcher(index, None, {}, max_words=max_words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FETCHED", fetch)
        patch.setattr(module, "_COMPLETED", completed)
        phrases, passages = searcher.find(queries, phrases=k), searcher.find(queries, passages=k)
        both = searcher.find(queries, phrases=1, passages=k)
    for row, query in enumerate(queries):
        spans = oracle(index, query, max_words)
        ranking = sorted(spans, key=lambda span: (-spans[span], span))
        firsts = list({index.rows[span[0]]["passage"]: span for span in reversed(ranking)}.items())[::-1]
        by_passage = [span for _, span in sorted(firsts, key=lambda pair: ranking.index(pair[1]))][:k]
        for hits, expected in [
            (phrases, ranking[:k]),
            (passages, by_passage),
            (both, sorted({*ranking[:1], *by_passage}, key=ranking.index)),
        ]:
            is_hit = hits.ids[row] >= 0
            got = list(zip(*(side.tolist() for side in index.start_and_end(hits.ids[row][is_hit])), strict=True))
            assert got == expected
            assert hits.similarities[row][is_hit].tolist() == [spans[span] for span in expected]
            assert (hits.similarities[row][~is_hit] == -np.inf).all()


@pytest.mark.parametrize("factory", ["IVF8,Flat", "IVF8,PQ8x4"])
def test_inverted_files_find_the_best_phrase_with_its_exact_score(factory, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(3000, 16))
    exact, index = (make_index([np.arange(30)] * 100, vectors, STARTS | ENDS, factory=one) for one in (None, factory))
    queries = np.stack([index.vectors[[i, i + 2]].reshape(-1) * 4 for i in range(5, 2900, 170)])
    expected = PhraseSearcher(exact, None, {}).find(queries, phrases=5)
    monkeypatch.setattr(module, "_FETCHED", 50)
    got = PhraseSearcher(index, None, {}).find(queries, phrases=5)
    assert (got.ids >= 0).all()
    monkeypatch.setattr(module, "_FETCHED", 3000)
    short = PhraseSearcher(index, None, {}).find(queries[:1], phrases=5000)
    assert 0 < (short.ids >= 0).sum() < 5000
    assert (got.ids[:, 0] == expected.ids[:, 0]).mean() > 0.9
    # Scores are computed from the vectors, not from the compressed ones.
    same = got.ids[:, 0] == expected.ids[:, 0]
    assert got.similarities[same, 0] == pytest.approx(expected.similarities[same, 0], rel=1e-5)
