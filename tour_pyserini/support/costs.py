"""Count the work of a run and measure its time."""

import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Costs:
    """Counts and seconds of a run, added up while it is made; several threads may share them.

    Attributes:
        queries: queries searched.
        updates: updates of query vectors.
        pairs: (query, passage) pairs labelled.
        scored: pairs that the re-ranker scored; the other `pairs - scored` came from the score cache.
        seconds: wall-clock time by stage; the time of a stage inside another is not counted for the outer one. Threads
            that work at the same time each count their own time.
        spent: what a re-ranker that is paid for took: requests, tokens, an amount of a currency.
    """

    queries: int = 0
    updates: int = 0
    pairs: int = 0
    scored: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.local()  # its `within`: seconds of the stages inside the current one

    def add(self, **counts: int) -> None:
        """Add to some of the counts, such as `pairs=3`."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def spend(self, amounts: Mapping[str, float]) -> None:
        """Add to what was spent."""
        with self._lock:
            for name, amount in amounts.items():
                self.spent[name] = self.spent.get(name, 0) + amount

    def taken(self) -> Self:
        """What was added up so far; it begins again at zero."""
        with self._lock:
            taken = type(self)(self.queries, self.updates, self.pairs, self.scored, self.seconds, self.spent)
            self.queries = self.updates = self.pairs = self.scored = 0
            self.seconds, self.spent = {}, {}
        return taken

    def __reduce__(self) -> tuple[Any, ...]:
        return Costs, dataclasses.astuple(self)  # a lock cannot be copied or pickled

    @classmethod
    def from_record(cls, values: Any) -> Self:
        """The costs in a record.

        Raises:
            ValueError: if they are not counts and seconds.
        """
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(values)

    @classmethod
    def total(cls, parts: Iterable["Costs"]) -> Self:
        """The sum of costs: of shards, or of processes that worked at the same time."""
        total = cls()
        for part in parts:
            counts = dataclasses.asdict(part)
            for name, seconds in counts.pop("seconds").items():
                total.seconds[name] = total.seconds.get(name, 0.0) + seconds
            total.spend(counts.pop("spent"))
            total.add(**counts)
        return total

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage, without the time of stages inside the block."""
        start, before = time.perf_counter(), getattr(self._thread, "within", 0.0)
        self._thread.within = 0.0
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + passed - self._thread.within
            self._thread.within = before + passed

    def __str__(self) -> str:
        by_stage = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        spent = "".join(f"; {amount:.15g} {name}" for name, amount in self.spent.items())
        queries = max(self.queries, 1)
        return (
            f"{self.queries} queries, {self.updates / queries:.2f} updates and {self.pairs / queries:.1f} labels each; "
            f"{self.pairs} pairs labelled: {self.scored} scored, {self.pairs - self.scored} from the cache; "
            f"{sum(self.seconds.values()):.1f} s ({by_stage}){spent}"
        )
