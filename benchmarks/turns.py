"""Contenders measured in turns, so that what slows the machine down slows all of them down."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Turns(NamedTuple):
    """Seconds of each contender, float64 [rounds], and what each of them gave when it warmed up."""

    seconds: Mapping[str, np.ndarray]
    results: Mapping[str, Any]

    def best(self, name: str) -> float:
        """The contender's shortest turn."""
        return float(self.seconds[name].min())

    def ratio(self, reference: str, name: str) -> float:
        """How many times as fast as the reference: the median over rounds of the quotient within a round."""
        return float(np.median(self.seconds[reference] / self.seconds[name]))


def in_turns(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> Turns:
    """Give every contender its turn in each round, after one to warm up."""
    results = {name: contender() for name, contender in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            start = time.perf_counter()
            contender()
            seconds[name].append(time.perf_counter() - start)
    return Turns({name: np.array(each) for name, each in seconds.items()}, results)
