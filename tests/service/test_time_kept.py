"""The time from the last label to the answer: what is kept of it, and from when to when a request lasts."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from own_loop import awaited
from tour_pyserini.service.time_kept import RECENT, TimeKept

from tour_pyserini.service.request_times import RequestTimes, arrival, note_answered
from tour_pyserini.service.serve_request import ServeRequest
from tour_pyserini.service.serving import _listen


def test_nearly_all_recent_searches_of_a_kind_had_enough_time():
    kept = TimeKept(first=0.5)
    assert kept.seconds("anchored", 10) == 0.5
    for _ in range(RECENT):
        kept.learn("anchored", 10, 0.02)
    assert kept.seconds("anchored", 10) == pytest.approx(0.02)
    assert kept.seconds("anchored", 15) == pytest.approx(0.02)  # about as long a list
    assert kept.seconds("anchored", 1000) == kept.seconds("rerank", 10) == 0.5
    for _ in range(5):
        kept.learn("anchored", 10, 0.1)
    assert kept.seconds("anchored", 10) == pytest.approx(0.1)


def test_a_request_lasts_from_its_first_byte_to_the_last_of_its_answer():
    sent, done = [], []

    async def app(scope, receive, send):
        request = SimpleNamespace(scope=scope)
        came = arrival(request)
        await asyncio.sleep(0.01)
        assert arrival(request) == came
        note_answered(request, ["first", "second"])
        await send("answer")
        done.append(len(sent))

    async def send(_):
        assert not sent

    awaited(RequestTimes(app, sent.append)({}, None, send))
    assert done == [0] and sent == [["first", "second"]]


def test_a_request_that_is_refused_is_not_learnt_from():
    async def app(scope, receive, send):
        pass

    awaited(RequestTimes(app, pytest.fail)({}, None, None))


def test_answers_are_sent_without_delay():
    """Nagle's algorithm would keep the end of each answer until the client has confirmed its beginning."""

    async def nodelay():
        accepted = asyncio.get_running_loop().create_future()
        with _listen(ServeRequest(port=0)) as listener:
            server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
            async with server:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                ours = await accepted
                value = ours.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                for end in (ours, writer):
                    end.close()
                return value

    assert awaited(nodelay())
