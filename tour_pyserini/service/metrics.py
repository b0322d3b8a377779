"""What the service does, in figures for Prometheus."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tour_pyserini.service.messages import Answer
from tour_pyserini.service.search_loop import SearchLoop

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)
_LABELS = (0, 1, 2, 5, 10, 20, 30, 50, 100, 200)


class _Live(Collector):
    """Figures that the searches know by themselves."""

    def __init__(self, searches: SearchLoop) -> None:
        self._searches = searches

    def collect(self) -> Iterator[Any]:
        searches, labels = self._searches, self._searches.labels
        gauges = {
            "running": ("searches that advance together", searches.running),
            "waiting": ("searches that wait for their turn", searches.waiting),
            "pairs_waiting": ("pairs that wait for a call of the re-ranker", labels.waiting),
            "label_margin": ("factor on the forecast of a call", labels.cost.margin),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"tour_{name}", text, value=value)
        yield CounterMetricFamily("tour_reranker_calls", "calls of the re-ranker", value=labels.calls)
        yield CounterMetricFamily("tour_reranker_pairs", "pairs in these calls", value=labels.labels)


class Metrics:
    """Counts requests, answers and labels.

    Args:
        searches: what is counted.
    """

    def __init__(self, searches: SearchLoop) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Live(searches))
        self._requests = Counter("tour_requests", "answers by status", ["route", "status"], registry=self._registry)
        self._stops = Counter("tour_searches", "searches that ended, by why", ["stop"], registry=self._registry)
        self._seconds = Histogram(
            "tour_search_seconds", "from arrival to answer", buckets=_SECONDS, registry=self._registry
        )
        self._waited = Histogram(
            "tour_waited_seconds", "from arrival to start", buckets=_SECONDS, registry=self._registry
        )
        self._labels = Histogram("tour_labels", "labels of a search", buckets=_LABELS, registry=self._registry)
        self._deadlines = Counter("tour_deadlines", "deadlines met and missed", ["met"], registry=self._registry)

    def request(self, route: str, status: int) -> None:
        """Count an answer of the service."""
        self._requests.labels(route, str(status)).inc()

    def answer(self, answer: Answer) -> None:
        """Count a search that ended."""
        costs = answer.costs
        self._stops.labels(answer.stop).inc()
        self._seconds.observe(costs.milliseconds / 1000)
        self._waited.observe(costs.waited_ms / 1000)
        self._labels.observe(costs.labels)

    def deadline(self, *, met: bool) -> None:
        """Count the deadline of a search whose answer has been sent."""
        self._deadlines.labels("yes" if met else "no").inc()

    def text(self) -> bytes:
        """All figures, in Prometheus' format."""
        return generate_latest(self._registry)
