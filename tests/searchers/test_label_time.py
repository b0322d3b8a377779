"""Labels within a deadline: calls that end in time, by a clock of the tests and re-rankers whose cost is known."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini.searchers.label_time import LabelCost, LabelRequest, next_call, score_until

PAIR = ("", "x" * 400)  # 100 tokens


class Simulation:
    """Serves requests as a service does, one call after the other; `seconds(count)` is what a call really takes.

    Attributes:
        calls: how many pairs each call had.
        late: labels that came after their deadline.
    """

    def __init__(self, seconds, *, known=(1, 2, 4, 8), least=1):
        self.seconds, self.least = seconds, least
        self.now, self.calls, self.late = 0.0, [], 0
        self.cost = LabelCost()
        for count in known:
            self.cost.learn([PAIR] * count, seconds(count))

    def run(self, *arrivals):
        """Requests that arrive: (when, pairs, seconds to the deadline), in order; ends when all of them have."""
        coming = [(when, LabelRequest([PAIR] * pairs, when + patience, when)) for when, pairs, patience in arrivals]
        requests, waiting = [request for _, request in coming], []
        while coming or waiting:
            if not waiting:
                self.now = max(self.now, coming[0][0])
            while coming and coming[0][0] <= self.now:
                waiting.append(coming.pop(0)[1])
            call = next_call(waiting, self.cost, now=self.now, least=self.least)
            if call:
                self._serve(call)
            # Who waits stops waiting at the deadline.
            waiting = [one for one in waiting if one.left and not one.ended and one.deadline > self.now]
        return [int(np.isfinite(request.scores).sum()) for request in requests]

    def _serve(self, call):
        taken = self.seconds(len(call))
        self.now += taken
        self.calls.append(len(call))
        self.cost.learn([PAIR] * len(call), taken)
        for request, position in call:
            if self.now <= request.deadline:
                request.scores[position] = 1.0
            else:
                self.late += 1


@pytest.mark.parametrize(
    ("seconds", "least", "arrival", "calls"),
    [
        # 100 ms are left: 5 pairs in half of it; of 55 then 3; of 28 then 1; of 19 then 1; in 10 ms none is safe.
        (lambda count: 0.009 * count, 1, (0, 30, 0.1), [5, 3, 1, 1]),
        # A call costs much: 88 ms each; in the last 24 ms there is no time for a third.
        (lambda count: 0.04 + 0.003 * count, 1, (0, 60, 0.2), [16, 16]),
        # Two pairs are scored in parallel, so they go together if they are in time.
        (lambda count: 0.03 * count, 2, (0, 30, 0.1), [2, 1]),
        # The next label would be late, so the search goes on at once.
        (lambda count: 0.2 * count, 1, (0, 3, 0.1), []),
    ],
)
def test_calls_become_small_as_the_deadline_comes_nearer(seconds, least, arrival, calls):
    simulation = Simulation(seconds, least=least)
    assert simulation.run(arrival) == [sum(calls)]
    assert simulation.calls == calls and simulation.now == pytest.approx(sum(map(seconds, calls)))


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.05])
def test_eight_searches_share_the_time_and_no_label_is_late(apart):
    simulation = Simulation(lambda count: 0.001 + 0.01 * count)
    labels = simulation.run(*((apart * number, 10, 0.3) for number in range(8)))
    assert simulation.late == 0
    assert sum(labels) >= 0.85 * min(80, (0.3 + 7 * apart) / 0.0102)  # calls of 5 pairs take 51 ms
    assert labels[0] == 10  # who came first is due first


@pytest.mark.parametrize(("before", "after", "most"), [(0.01, 0.02, 10), (0.02, 0.01, 20), (0.005, 0.015, 13)])
def test_the_forecast_follows_a_cost_that_changes(before, after, most):
    price = before
    simulation = Simulation(lambda count: price * count)

    def run(searches):
        start = simulation.now
        return np.mean(simulation.run(*((start + 0.3 * number, 60, 0.2) for number in range(searches))))

    run(20)
    assert simulation.late == 0
    price = after
    run(40)  # it learns
    late = simulation.late
    assert run(20) >= 0.85 * most  # of those that fit into 200 ms
    assert simulation.late == late <= 20


def test_after_slow_calls_searches_with_a_deadline_get_labels_again_and_trials_are_rare():
    slow = True
    simulation = Simulation(lambda count: 0.2 + 0.02 * count if slow else 0.005 * count, known=(1, 2, 4) * 6)
    start = time.monotonic()  # the forecast was made now
    assert simulation.run(*((start + 0.1 * number, 10, 0.15) for number in range(10))) == [0] * 10
    assert simulation.calls == []
    slow = False
    labels = simulation.run(*((start + 1 + 0.3 * number, 10, 0.15) for number in range(20)))
    assert simulation.calls[0] == 1 and labels[0] == 0 and labels[-1] == 10
    simulation = Simulation(lambda count: 0.5 * count)
    simulation.run(*((start + 0.1 * number, 10, 0.2) for number in range(300)))  # half a minute
    assert simulation.calls == [1] * 5  # a tenth of the time: one in 5 s, the first after 5 s


def test_the_forecast_is_the_plane_through_what_was_measured():
    cost = LabelCost(max_length=1000)
    for count, length in ((1, 100), (3, 200), (8, 400), (2, 300), (5, 50)):  # 4 ms, 2 ms a pair, 1 ms for 25 tokens
        cost.learn([("", "x" * 4 * length)] * count, 0.004 + count * (0.002 + length / 25_000))
    assert cost.seconds(5, 500) == pytest.approx(0.004 + 5 * 0.002 + 500 / 25_000)
    assert cost.per_call == pytest.approx(0.004) and cost.margin == pytest.approx(1.15)
    assert cost.tokens(("", "x" * 80_000)) == 1000


def test_pairs_are_scored_as_long_as_there_is_time():
    pairs, cost, calls = [("q", "x" * (number + 1)) for number in range(200)], LabelCost(), []

    def predict(pairs):
        calls.append(len(pairs))
        time.sleep(0.005 * len(pairs))
        return np.array([float(len(passage)) for _, passage in pairs])

    reranker = SimpleNamespace(predict=predict)
    scores, computed = score_until(reranker, pairs, time.monotonic() + 0.2, cost)
    assert 1 <= computed < 200 and calls[0] == 1  # the first pair tells what a label costs
    assert scores[:computed].tolist() == list(range(1, computed + 1)) and np.isnan(scores[computed:]).all()
    assert score_until(reranker, pairs[:3], time.monotonic() + 60, cost)[1] == 3
    reranker.lookup = lambda pairs: np.array([9.0 if passage == "xx" else np.nan for _, passage in pairs])
    scores, computed = score_until(reranker, pairs[:3], time.monotonic() + 60, cost)
    assert scores.tolist() == [1.0, 9.0, 3.0] and computed == 2
