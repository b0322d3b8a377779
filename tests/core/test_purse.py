"""Labels that queries share: shared out over a run, and from a purse in the order of arrival."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.purse import Purse, Ration, share_out
from tour_pyserini.errors import TourError


def exploring(gains, depth, asked=None):
    """Queries of which row i expects gains[i][t] of each label of round t + 1, and stops where there is none."""

    def explore(rows, budgets):
        ration = Ration(budgets)
        for i, row in enumerate(rows.tolist()):
            for gain in (np.inf, *gains[row]):
                if not ration(np.array([i]), np.array([gain]), np.array([depth]))[0]:
                    break
            if asked is not None:
                asked.append(row)
        return ration

    return explore


def test_a_ration_grants_all_or_nothing_and_notes_the_next_gain():
    ration = Ration(np.array([10, 20]))
    rows = np.arange(2)
    assert ration(rows, np.array([np.inf, np.inf]), np.array([10, 10])).tolist() == [True, True]
    assert ration(rows, np.array([0.3, 0.2]), np.array([10, 10])).tolist() == [False, True]
    assert ration(np.array([1]), np.array([0.1]), np.array([4])).tolist() == [False]
    assert ration.spent.tolist() == [10, 20]
    assert ration.next_gain.tolist() == [0.3, 0.1]


def test_labels_go_where_they_gain_most():
    # 4 queries, 20 labels each on average: 40 labels remain after the first round. Two of the four rounds go to the
    # best two (rows 1 and 3), one to the best then (row 1 again: 0.6), the last to row 0.
    gains = [[0.5], [0.9, 0.6, 0.1], [0.2], [0.8, 0.3]]
    assert share_out(4, mean=20, depth=10, explore=exploring(gains, 10)).tolist() == [20, 30, 10, 20]


def test_labels_that_easy_queries_leave_go_to_others():
    # Rows 0 and 1 stop by themselves after the first round; a budget of 20 each would end with 10, 10 and 20.
    assert share_out(3, mean=20, depth=10, explore=exploring([[], [], [0.1] * 9], 10)).tolist() == [10, 10, 40]


def test_equal_gains_go_to_the_earlier_query():
    assert share_out(4, mean=15, depth=10, explore=exploring([[0.5]] * 4, 10)).tolist() == [20, 20, 10, 10]


def test_only_queries_that_get_more_are_explored_again():
    asked = []
    share_out(4, mean=15, depth=10, explore=exploring([[0.4], [0.3], [0.2], [0.1]], 10, asked))
    assert asked == [0, 1, 2, 3, 0, 1]


@given(
    gains=st.lists(st.lists(st.floats(0.01, 1), max_size=6), min_size=1, max_size=30),
    mean=st.integers(5, 40),
)
def test_the_mean_is_kept_and_nothing_is_left_that_somebody_wants(gains, mean):
    budgets = share_out(len(gains), mean=mean, depth=5, explore=exploring(gains, 5))
    used = np.minimum(budgets, [5 * (1 + len(row)) for row in gains])
    assert (budgets >= 5).all() and used.sum() <= mean * len(gains)
    wanted = [row for row, gain in enumerate(gains) if 5 * (1 + len(gain)) > budgets[row]]
    assert not wanted or mean * len(gains) - used.sum() < 5


def simulated(purse, queries, *, depth=10, seed=0):
    """Queries of which every second is easy; the gain of a hard one's labels halves with each round."""
    random = np.random.default_rng(seed)
    taken, highest = [], 0.0
    for number in range(queries):
        purse.arrive()
        gain, labels = np.inf, 0
        hardness = random.uniform(0.5, 1.5) * (0.02 if number % 2 else 1.0)
        while purse.take(gain, depth):
            labels += depth
            gain = hardness * 0.5 ** (labels / depth)
        taken.append(labels)
        highest = max(highest, purse.labels / purse.queries)
    return np.array(taken), highest


@pytest.mark.parametrize("mean", [12, 20, 35])
def test_a_purse_never_exceeds_its_mean_reaches_it_and_serves_the_hard(mean):
    purse = Purse(mean)
    taken, highest = simulated(purse, 2000)
    assert highest <= mean
    assert taken.sum() == purse.labels and purse.queries == 2000
    assert purse.labels / purse.queries > 0.97 * mean
    late = taken[1000:]
    assert (taken >= 10).all()  # the first labels of a query are always given
    assert late[0::2].mean() > 1.3 * mean - 5 > late[1::2].mean()


def test_the_price_decides_which_labels_are_worth_it():
    purse = Purse(20)
    simulated(purse, 2000)
    assert 0.01 < purse.price < 1
    purse.arrive(100)
    assert all(purse.take(np.inf, 1) for _ in range(100))  # 19 each are left for everybody: only the price refuses
    assert not purse.take(purse.price / 2, 10)
    assert purse.take(purse.price * 2, 10)


def test_the_first_labels_of_a_query_that_has_arrived_are_kept_for_it():
    purse = Purse(20)
    purse.arrive(2)
    assert purse.take(np.inf, 10)  # the first query; of its own 20 labels 10 are left
    assert [purse.take(0.5, 10) for _ in range(3)] == [True, False, False]
    assert purse.take(np.inf, 10)  # the second query, 30 labels in all; now 10 are left for both
    assert [purse.take(0.5, 10) for _ in range(2)] == [True, False]
    assert (purse.queries, purse.labels) == (2, 40)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=60), st.integers(12, 30))
def test_in_any_order_each_query_gets_its_first_labels_and_the_mean_is_kept(events, mean):
    purse, waiting = Purse(mean), 0
    for kind, labels in events:
        if kind == 0:
            purse.arrive()
            waiting += 1
        elif kind == 1 and waiting:
            assert purse.take(np.inf, labels)
            waiting -= 1
        else:
            purse.take(50.0, labels)
        assert purse.labels <= mean * purse.queries
    assert all(purse.take(np.inf, mean) for _ in range(waiting))


def test_what_is_not_a_number_gets_nothing():
    purse = Purse(10)
    purse.arrive()
    assert not purse.take(float("nan"), 5)
    assert purse.labels == 0


def test_a_purse_serves_threads():
    purse = Purse(10)

    def serve():
        for _ in range(500):
            purse.arrive()
            purse.take(np.inf, 5)
            purse.take(np.inf, 5)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (purse.queries, purse.labels) == (2000, 20_000)


@pytest.mark.parametrize("mean", [0, -1, float("inf"), float("nan"), "20", True, None])
def test_a_mean_that_is_no_number_of_labels_is_refused(mean):
    with pytest.raises(TourError, match="number of labels above 0"):
        Purse(mean)
