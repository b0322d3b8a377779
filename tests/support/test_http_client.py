"""How long a service is waited for; `tests/rerankers/test_remote.py` has the rest, against a real service."""

import asyncio

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support import http_client


def test_waits_double_up_to_a_limit_and_are_partly_random():
    for attempt, most in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30, 30]):
        waits = {http_client.back_off(attempt) for _ in range(50)}
        assert len(waits) > 1
        assert most / 2 <= min(waits) <= max(waits) <= most


def test_after_an_error_nothing_is_begun_but_what_was_begun_is_finished():
    done = []

    async def work(number):
        await asyncio.sleep(0.01 * number)
        if number == 1:
            raise ValueError("one")
        done.append(number)

    with pytest.raises(ValueError, match="one"):
        list(http_client.from_background(lambda _: http_client.for_each(range(1, 100), work, at_once=3)))
    assert done == [2, 3]


def test_a_wait_that_is_no_number_is_as_good_as_none():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write("HTTP/1.1 429 Busy\r\nRetry-After: ²\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async def work():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            options = {"key": None, "key_variable": "KEY", "deadline": 60, "retries": 0, "connections": 1}
            await http_client.JsonService(base, **options).ask("/info")

    with pytest.raises(TourError, match="status 429"):
        asyncio.run(work())
