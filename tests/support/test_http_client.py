"""How long a service is waited for, and what it says about its failures."""

from email.utils import formatdate

import pytest

from tour_pyserini.support import http_client


def test_waits_double_up_to_a_limit_and_are_partly_random():
    for attempt, most in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30, 30]):
        waits = {http_client.back_off(attempt) for _ in range(50)}
        assert len(waits) > 1
        assert most / 2 <= min(waits) <= max(waits) <= most


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), (" 7 ", 7), (formatdate(0, usegmt=True), 0), *((text, 0) for text in ("soon", "-1", "", "\u00b2"))],
)
def test_retry_after_is_a_number_of_seconds_or_a_past_date(header, seconds):
    assert http_client._retry_after(header) == seconds


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"error": "Model is overloaded.", "error_type": "Overloaded"}', ": Model is overloaded"),
        (b'{"error": {"message": "too long", "code": 400}}', ": too long"),
        (b"<html>\nBad gateway", ": <html>"),
        (b'{"other": 1}', ': {"other": 1}'),
        (b"\xff\xfe", ": \ufffd\ufffd"),
        (b"", ""),
        (b"[" * 5000, ": " + "[" * 197 + "..."),
        (b"x" * 5000, ": " + "x" * 197 + "..."),
    ],
)
def test_what_a_service_says_is_one_short_line(answer, said):
    service = http_client.JsonService("", key=None, key_variable="", deadline=1, retries=0, connections=1)
    assert service._said(answer) == said
