"""What a run cost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Costs:
    """Counts and seconds, added up as the work goes on.

    Attributes:
        queries: queries answered.
        updates: updates of query vectors.
        pairs: (query, passage) pairs labelled.
        reused: labels asked for again within a query and not paid again.
        scored: pairs that went through the re-ranker; `pairs - scored` came from the persistent cache.
        seconds: wall-clock time by stage; a stage within another counts for itself alone.
    """

    queries: int = 0
    updates: int = 0
    pairs: int = 0
    reused: int = 0
    scored: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._within = 0.0  # seconds of the stages inside the present one

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage, but for the stages within it."""
        start, outside = time.perf_counter(), self._within
        self._within = 0.0
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + passed - self._within
            self._within = outside + passed

    def __str__(self) -> str:
        by_stage = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        each = max(self.queries, 1)
        return (
            f"{self.queries} queries, {self.updates / each:.2f} updates and {self.pairs / each:.1f} labels each; "
            f"{self.pairs} pairs labelled: {self.scored} scored, {self.pairs - self.scored} from the cache; "
            f"{self.reused} labels used again; {sum(self.seconds.values()):.1f} s ({by_stage})"
        )
