"""How long a service is waited for; `tests/rerankers/test_remote.py` has the rest, against a real service."""

from tour_pyserini.support import http_client


def test_waits_double_up_to_a_limit_and_are_partly_random():
    for attempt, most in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30, 30]):
        waits = {http_client.back_off(attempt) for _ in range(50)}
        assert len(waits) > 1
        assert most / 2 <= min(waits) <= max(waits) <= most
