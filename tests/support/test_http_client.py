"""How long a service is waited for; `tests/rerankers/test_remote.py` has the rest, against a real service."""

import asyncio

import pytest

from tour_pyserini.support import http_client


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
