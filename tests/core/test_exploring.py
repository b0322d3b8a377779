"""Methods that choose documents by labels and a corpus graph: RGS, LADR and ORE, on graphs that can be read off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_corpus import MemoryCorpus

from tour_pyserini.core.candidates import Hits
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.fusion import Found, Fusion
from tour_pyserini.core.ledger import Ledger
from tour_pyserini.core.loop import optimise
from tour_pyserini.core.ranking import rank
from tour_pyserini.errors import TourError

NAMES = ["ladr", "rgs", "ore"]

# Documents on a circle, the query at 0 degrees. By distance to it: 0, 6, 1, 7, 2, 3, 8, 4, 5. Two nearest neighbours:
# 0: 1 2; 1: 0 2; 2: 1 3; 3: 2 4; 4: 3 5; 5: 4 3; 6: 7 0; 7: 6 8; 8: 7 6.
DEGREES = [10, 20, 32, 46, 62, 80, -14, -30, -48]
NEIGHBOURS = [[1, 2], [0, 2], [1, 3], [2, 4], [3, 5], [4, 3], [7, 0], [6, 8], [7, 6]]
LABELS = np.array([[0.0, 1, 2, 3, 4, 5, -1, -1, -1]])
QUERY = np.array([[1.0, 0.0]])


def circle(labels=LABELS):
    angles = np.radians(DEGREES)
    return MemoryCorpus(np.stack([np.cos(angles), np.sin(angles)], axis=1), labels, len(DEGREES))


def labelled(method, *, signals=(), corpus=None, **changes):
    """The documents that are labelled for the query on the circle, in order."""
    corpus = corpus or circle()
    config = TourConfig(method, neighbours=2, calibrate="never", early_stopping=False, **changes)
    optimise(QUERY, config, search=corpus.search, vectors=corpus.vectors, score=corpus.score, signals=signals)
    return [id_ for _, id_ in corpus.scored]


def test_neighbours_are_the_nearest_documents_and_each_is_looked_up_once():
    corpus = circle()
    ledger = Ledger(score=corpus.score, vectors=corpus.vectors)
    view = CorpusView(QUERY, wanted=1, search=corpus.search, vectors=corpus.vectors, ledger=ledger)
    for count in (1, 2):
        found = view.neighbours(0, np.arange(9), count)
        assert [ids.tolist() for ids in found] == [ids[:count] for ids in NEIGHBOURS]
    before = len(corpus.searched)
    assert view.neighbours(0, np.array([3, 3, 0]), 2)[2].tolist() == [1, 2]
    assert len(corpus.searched) == before
    assert view.similarities(0, np.array([0, 5])) == pytest.approx(np.cos(np.radians([10, 80])))
    assert view.similarities(0, np.array([], dtype=np.int64)).tolist() == []


def test_rgs_walks_to_where_labels_rise():
    # 0 is nearest to the query; then always the neighbour of the best that has no label.
    assert labelled("rgs", depth=1, budget=6) == [0, 1, 2, 3, 4, 5]


def test_rgs_fills_a_round_from_the_next_best_and_then_from_the_retrieval():
    # 0 and its neighbour 1; the new neighbour of 1 is 2, that of 0 is 2 as well, so 6 fills the round; then 3 beside 2
    # and 7 beside 6.
    assert labelled("rgs", depth=2, budget=6) == [0, 1, 2, 6, 3, 7]


def test_ladr_labels_seeds_and_then_what_is_near_the_best():
    # Seeds 0 and 6; near 0: 1 and 2, in the order of the query; near 2: 3, and 7 is the next seed.
    assert labelled("ladr", depth=2, budget=6, best=1) == [0, 6, 1, 2, 3, 7]


def test_ladr_expands_as_many_as_it_is_told_in_the_order_of_the_query():
    # Near 0 and 6 are 1, 2 and 7: by their angle 1 (20), 7 (30), 2 (32).
    assert labelled("ladr", depth=2, budget=5, best=2) == [0, 6, 1, 7, 2]


def found(ids, scores):
    return Found(np.array([ids]), np.array([scores], dtype=float))


def test_ladr_takes_its_seeds_from_the_signal():
    # Seeds 8 and 5; near 5: 3 is more similar to the query than 4, and both are unknown to the signal.
    assert labelled("ladr", depth=2, budget=4, best=1, signals=[found([8, 5], [3, 2])]) == [8, 5, 3, 4]
    two = [found([8, 5], [3, 2]), found([7, 8], [9, 1])]
    assert labelled("ladr", depth=3, budget=3, best=1, signals=two) == [8, 7, 5]


def test_ladr_takes_its_seeds_from_the_signal_that_finds_some():
    signals = [found([-1, -1], [0, 0]), found([8, 5], [3, 2])]
    assert labelled("ladr", depth=2, budget=2, best=1, signals=signals) == [8, 5]


def test_ore_follows_the_feature_that_explains_the_labels():
    # 0 and 6 have labels 0 and -1. Similarity explains them (10 and 14 degrees); so does nothing else yet, for each is
    # as near to the other. So the next are the most similar: 1 and 7.
    assert labelled("ore", depth=2, budget=4) == [0, 6, 1, 7]
    # Labels that fall with similarity: the least similar of the pool are next.
    corpus = circle(-LABELS)
    corpus.scores[0, [0, 6]] = -9, 9
    assert labelled("ore", corpus=corpus, depth=2, budget=4, best=2) == [0, 6, 5, 4]


def test_ore_learns_that_the_signal_is_right():
    # The signal alone tells 0 from 6, and finds 5 and 4.
    corpus = circle(np.array([[5.0, 0, 0, 0, 5, 5, -5, 0, 0]]))
    corpus.matrix = np.concatenate([corpus.matrix, np.zeros((9, 1))], axis=1)
    signal = found([5, 4, 0, 1, 2, 3, 6, 7, 8], [9, 8, 7, 0, 0, 0, -7, 0, 0])
    config = TourConfig(
        "ore", neighbours=2, depth=2, budget=4, calibrate="never", early_stopping=False, signal_weight=0
    )
    optimise(
        np.array([[1.0, 0.0, 0.0]]),
        config,
        search=corpus.search,
        vectors=corpus.vectors,
        score=corpus.score,
        signals=[signal],
    )
    assert [id_ for _, id_ in corpus.scored] == [0, 6, 5, 4]


def test_one_best_passage_has_no_others_to_be_near_to():
    with pytest.raises(TourError, match="best must be at least 2, not 1"):
        TourConfig("ore", best=1)
    assert TourConfig("ladr", best=1).best == 1


class RowByRow(MemoryCorpus):
    """The same, but similarities are not rounded differently where more queries are searched together."""

    def search(self, rows, queries):
        similarities = (queries[:, None, :] * self.matrix).sum(axis=2)
        order = np.argsort(-similarities, axis=1, kind="stable")[:, : self.hits]
        return Hits(order, np.take_along_axis(similarities, order, axis=1))


def random_case(seed, n=5, size=40, d=6):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(size, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = random.normal(size=(n, d))
    corpus = RowByRow(vectors, 4 * random.normal(size=(n, size)), size)
    ids = np.stack([random.permutation(size)[:12] for _ in range(n)])
    return corpus, queries, Found(ids, -np.sort(-random.normal(size=ids.shape), axis=1))


@pytest.mark.parametrize("method", NAMES)
@given(seed=st.integers(0, 10**6), budget=st.integers(1, 45), depth=st.integers(1, 9), sparse=st.booleans())
@settings(deadline=None, max_examples=20)
def test_a_query_has_the_same_list_alone_and_its_budget_is_spent(method, seed, budget, depth, sparse):
    corpus, queries, signal = random_case(seed)
    config = TourConfig(method, depth=depth, budget=budget, neighbours=4)
    signals = [signal] if sparse else []
    calls = {"vectors": corpus.vectors}
    together = optimise(queries, config, search=corpus.search, score=corpus.score, signals=signals, **calls)
    assert together.ledger.spent(np.arange(5)).tolist() == [min(budget, 40)] * 5
    assert len(corpus.scored) == len(set(corpus.scored))
    for row in range(5):
        alone = optimise(
            queries[row : row + 1],
            config,
            search=corpus.search,
            score=lambda rows, ids, row=row: corpus.score(rows + row, ids),
            signals=[Found(one.ids[row : row + 1], one.scores[row : row + 1]) for one in signals],
            **calls,
        )
        one, of_all = rank(alone, 0, config, hits=40), rank(together, row, config, hits=40)
        assert one.ids.tolist() == of_all.ids.tolist()
        assert np.array_equal(one.scores, of_all.scores)
        assert np.array_equal(alone.queries[0], queries[row])


@pytest.mark.parametrize("method", NAMES)
def test_a_signal_that_finds_nothing_changes_no_bit_of_the_list(method):
    corpus, queries, _ = random_case(4)
    corpus.matrix, queries = corpus.matrix.astype(np.float32), queries.astype(np.float32)
    config = TourConfig(method, depth=5, budget=20, neighbours=4)
    nothing = Found(np.full((5, 12), -1), np.full((5, 12), -np.inf))
    lists = []
    for signals in ([], [nothing], [nothing, nothing]):
        calls = {"search": corpus.search, "vectors": corpus.vectors, "score": corpus.score, "signals": signals}
        outcome = optimise(queries, config, **calls)
        lists.append([rank(outcome, row, config, hits=40) for row in range(5)])
    assert len(lists[0][0].ids) == 40
    for plain, one, two in zip(*lists, strict=True):
        assert plain.ids.tolist() == one.ids.tolist() == two.ids.tolist()
        assert plain.scores.tolist() == one.scores.tolist() == two.scores.tolist()


@pytest.mark.parametrize("method", NAMES)
def test_labels_of_another_unit_give_the_same_choices(method):
    corpus, queries, signal = random_case(3)
    config = TourConfig(method, budget=20, neighbours=4)
    chosen = []
    for scores in (corpus.scores, 0.01 * corpus.scores + 7):
        again = MemoryCorpus(corpus.matrix, scores, 40)
        optimise(queries, config, search=again.search, vectors=again.vectors, score=again.score, signals=[signal])
        chosen.append(again.scored)
    assert chosen[0] == chosen[1]


def test_a_view_knows_what_signals_say():
    corpus, queries, signal = random_case(1, n=1)
    fusion = Fusion(corpus.search, corpus.vectors, [signal], weight=0.5)
    fusion.search(np.array([0]), queries)
    ledger = Ledger(score=corpus.score, vectors=corpus.vectors)
    view = CorpusView(
        *(queries,),
        wanted=1,
        search=corpus.search,
        vectors=corpus.vectors,
        ledger=ledger,
        signals=[signal],
        fusion=fusion,
    )
    ids = signal.ids[0][:3]
    assert view.signal_scores(0, ids)[:, 0] == pytest.approx(signal.scores[0][:3])
    assert view.found_by_signals(0)[0].tolist() == signal.ids[0].tolist()
    offsets = fusion.offsets(np.zeros(3, dtype=np.int64), ids)
    assert view.similarities(0, ids) == pytest.approx(corpus.matrix[ids] @ queries[0] + offsets)
