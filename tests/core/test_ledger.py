"""The ledger: what is offered, fetched once, bought once, and kept for each query."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.core.candidates import Hits
from tour_pyserini.core.ledger import Ledger

ROWS = np.array([0, 1])


def hits(*lists):
    """Hits with the similarities 0.9, 0.8, ...; shorter lists are filled up with -1."""
    width = max(map(len, lists))
    ids = np.array([[*ids, *[-1] * (width - len(ids))] for ids in lists], dtype=np.int64).reshape(len(lists), width)
    return Hits(ids, np.where(ids >= 0, 0.9 - 0.1 * np.arange(width), -np.inf))


class Counted:
    """A ledger whose label of (row, id) is 100 row + id and whose vector of an id is [id, 1]."""

    def __init__(self, *, vectors=True):
        self.scored, self.fetched = [], []
        self.ledger = Ledger(score=self._score, vectors=self._vectors if vectors else None)

    def _score(self, rows, ids):
        self.scored += zip(rows.tolist(), ids.tolist(), strict=True)
        return 100.0 * rows + ids

    def _vectors(self, ids):
        self.fetched += ids.tolist()
        return np.stack([ids, np.ones(len(ids))], axis=1).astype(np.float32)

    def label(self, rows, found):
        self.ledger.enter(rows, found)
        return self.ledger.buy(rows, found)


def chosen(ledger, found, depth, *, rows=ROWS, new_only=False, budget=None):
    return ledger.choose(rows, found, depth, new_only=new_only, budget=budget)


def test_an_empty_ledger_offers_the_first_hits():
    offered = chosen(Counted().ledger, hits([5, 3, 8], [4]), 2)
    assert offered.ids.tolist() == [[5, 3], [4, -1]]
    assert offered.similarities[0].tolist() == pytest.approx([0.9, 0.8])
    assert offered.similarities[1].tolist() == pytest.approx([0.9, -np.inf])


def test_candidates_that_a_query_has_met_are_left_out_on_request():
    counted = Counted()
    counted.ledger.enter(ROWS, hits([5, 3], [3]))
    found = hits([5, 8, 3, 7], [5, 3, 8, 7])
    assert chosen(counted.ledger, found, 2).ids.tolist() == [[5, 8], [5, 3]]
    assert chosen(counted.ledger, found, 2, new_only=True).ids.tolist() == [[8, 7], [5, 8]]
    assert chosen(counted.ledger, found, 9, new_only=True).ids.tolist() == [[8, 7, *[-1] * 7], [5, 8, 7, *[-1] * 6]]


def test_a_budget_leaves_out_unlabelled_candidates_only():
    counted = Counted()
    counted.label(ROWS, hits([5, 3], [3]))
    found = hits([1, 3, 2, 5], [1, 3, 2, 5])
    # Query 0 has two labels and query 1 has one.
    assert chosen(counted.ledger, found, 4, budget=2).ids.tolist() == [[3, 5, -1, -1], [1, 3, -1, -1]]
    assert chosen(counted.ledger, found, 4, budget=3).ids.tolist() == [[1, 3, 5, -1], [1, 3, 2, -1]]
    assert chosen(counted.ledger, found, 2, budget=2, new_only=True).ids.tolist() == [[-1, -1], [1, -1]]
    assert counted.ledger.spent(np.array([1, 0, 7])).tolist() == [1, 2, 0]


def test_a_candidate_that_was_met_without_a_label_counts_against_the_budget():
    counted = Counted()
    counted.ledger.enter(ROWS, hits([5, 3], [3]))
    assert chosen(counted.ledger, hits([5, 3], [3, 5]), 2, budget=1).ids.tolist() == [[5, -1], [3, -1]]


def test_vectors_are_fetched_once_per_pair_and_labels_are_bought_once():
    counted = Counted()
    first = counted.label(ROWS, hits([5, 3], [3]))
    assert first.tolist() == [[5.0, 3.0], [103.0, 0.0]]
    second = counted.label(ROWS, hits([3, 4], [3, 5]))
    assert second.tolist() == [[3.0, 4.0], [103.0, 105.0]]
    assert counted.scored == [(0, 5), (0, 3), (1, 3), (0, 4), (1, 5)]
    assert counted.fetched == [5, 3, 3, 4, 5]
    assert (counted.ledger.requested, counted.ledger.bought) == (7, 5)
    assert counted.ledger.spent(ROWS).tolist() == [3, 2]


def test_no_hits_cost_nothing():
    counted = Counted()
    assert counted.label(ROWS, hits([-1], [-1])).tolist() == [[0.0], [0.0]]
    assert counted.scored == counted.fetched == []
    assert (counted.ledger.requested, counted.ledger.bought) == (0, 0)


def test_what_is_labelled_comes_in_the_order_in_which_it_was_met():
    counted = Counted()
    counted.label(ROWS, hits([5, 3], [3]))
    counted.ledger.enter(ROWS, hits([9], [2]))  # met, but not labelled
    counted.label(ROWS, hits([4, 5], [3]))
    ids, labels, vectors, _ = counted.ledger.labelled(0)
    assert ids.tolist() == [5, 3, 4]
    assert labels.tolist() == [5.0, 3.0, 4.0]
    assert vectors.tolist() == [[5.0, 1.0], [3.0, 1.0], [4.0, 1.0]]
    assert counted.ledger.labelled(1).ids.tolist() == [3]
    assert counted.ledger.labelled(6).ids.tolist() == []


def test_without_updates_there_are_labels_and_no_vectors():
    counted = Counted(vectors=False)
    counted.label(ROWS, hits([5, 3], [3]))
    assert counted.ledger.labelled(0).vectors is None
    found = hits([5, 3], [3])
    candidates = counted.ledger.candidates(ROWS, np.ones((2, 2)), found, scale=10.0)
    assert candidates.similarities.tolist() == [pytest.approx([9.0, 8.0]), pytest.approx([9.0, -np.inf])]
    assert candidates.labels.tolist() == [[5.0, 3.0], [103.0, -np.inf]]


def test_candidates_by_hand():
    counted = Counted()
    counted.label(ROWS, hits([5, 3], [3]))
    counted.ledger.enter(ROWS, hits([7], [-1]))
    queries = np.array([[1.0, 2.0], [0.0, 1.0]])
    met = counted.ledger.candidates(ROWS, queries, None, scale=2.0, width=3)
    assert met.ids.tolist() == [[5, 3, 7], [3, -1, -1]]
    assert met.mask.tolist() == [[True, True, True], [True, False, False]]
    assert met.similarities.tolist() == [[14.0, 10.0, 18.0], [2.0, -np.inf, -np.inf]]
    assert met.labels[0].tolist() == pytest.approx([5.0, 3.0, np.nan], nan_ok=True)
    assert met.labels[1].tolist() == [103.0, -np.inf, -np.inf]
    assert met.vectors[1].tolist() == [[3.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    assert met.scale == 2.0
    some = counted.ledger.candidates(ROWS[1:], queries[1:], hits([3]), scale=1.0)
    assert some.ids.tolist() == [[3]]


def test_hits_that_were_not_entered_are_no_candidates():
    counted = Counted()
    counted.label(ROWS, hits([5, 3], [3]))
    candidates = counted.ledger.candidates(ROWS, np.ones((2, 2)), hits([5, 8], [9, 8]), scale=1.0)
    assert candidates.ids.tolist() == [[5, -1], [-1, -1]]
    assert candidates.labels.tolist() == [[5.0, -np.inf], [-np.inf, -np.inf]]
    assert candidates.similarities.tolist() == [[6.0, -np.inf], [-np.inf, -np.inf]]
    assert not candidates.vectors[1].any()


retrievals = st.lists(
    st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=3, max_size=3), min_size=1, max_size=6
)


@given(retrievals, st.integers(1, 5), st.booleans(), st.integers(1, 12))
@settings(deadline=None)
def test_rounds_of_labels_follow_a_plain_list_of_what_was_met(rounds, depth, new_only, budget):
    counted, rows = Counted(), np.arange(3)
    met = [[], [], []]
    for lists in rounds:
        expected = []
        for row, ids in enumerate(lists):
            left, offered = budget - len(met[row]), []
            for id_ in ids:
                known = id_ in met[row]
                if len(offered) < depth and not (known and new_only) and (known or left > 0):
                    offered.append(id_)
                    left -= not known
            expected.append(offered)
        offered = chosen(counted.ledger, hits(*lists), depth, rows=rows, new_only=new_only, budget=budget)
        assert [[id_ for id_ in ids if id_ >= 0] for ids in offered.ids.tolist()] == expected
        labels = counted.label(rows, offered)
        assert labels == pytest.approx(np.where(offered.ids >= 0, 100 * rows[:, None] + offered.ids, 0))
        for row, ids in enumerate(expected):
            met[row] += [id_ for id_ in ids if id_ not in met[row]]
    assert sorted(counted.scored) == sorted((row, id_) for row in range(3) for id_ in met[row])
    assert len(set(counted.scored)) == len(counted.scored) == counted.ledger.bought <= counted.ledger.requested
    assert counted.ledger.spent(rows).tolist() == [len(ids) for ids in met]
    assert max(map(len, met)) <= budget
    for row, ids in enumerate(met):
        assert counted.ledger.labelled(row).ids.tolist() == ids
        assert counted.ledger.labelled(row).labels.tolist() == [100.0 * row + id_ for id_ in ids]
