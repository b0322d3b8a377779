import copy
import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tour_pyserini.support import costs as costs_module
from tour_pyserini.support.costs import Costs


def test_the_time_of_an_inner_stage_is_not_counted_for_the_outer_stage(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 5.0, 5.5, 10.0, 11.0, 12.0])
    monkeypatch.setattr(costs_module.time, "perf_counter", lambda: next(clock))
    costs = Costs()
    with costs.stage("outer"):  # 0 to 10
        with costs.stage("inner"):  # 1 to 4
            pass
        with costs.stage("inner"):  # 5 to 5.5
            pass
    with pytest.raises(KeyError), costs.stage("outer"):  # 11 to 12
        raise KeyError
    assert costs.seconds == {"inner": 3.5, "outer": 7.5}
    assert Costs(**dataclasses.asdict(costs)) == costs


def test_threads_share_costs():
    costs = Costs()

    def work(_):
        with costs.stage("outer"):
            for _ in range(50):
                with costs.stage("inner"):
                    time.sleep(0.0001)
                costs.add(pairs=2, scored=1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert (costs.pairs, costs.scored) == (800, 400)
    assert costs.seconds["inner"] >= 8 * 50 * 0.0001
    assert costs.seconds["outer"] >= 0
    assert copy.deepcopy(costs) == costs
    assert costs.taken().pairs == 800 and costs == Costs()
