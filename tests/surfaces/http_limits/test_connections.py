"""Connections that ask nothing, or take their time: they go, and those who ask are answered."""

import asyncio
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest
from pytest_django import Settings

from convmemory.core.web.asgi_types import Receive, Scope, Send
from convmemory.http_limits import connections
from tests.support.asgi_thread import running_application
from tests.support.raw_http import connect, head, talk

pytestmark = pytest.mark.django_db(transaction=True)

HEALTH = head("/health", "Connection: close", method="GET")


@pytest.fixture
def soon(settings: Settings) -> None:
    settings.REQUEST_IDLE_S = 0.2


@pytest.fixture
def soon_after_a_byte(soon: None, heads_may_begin_late: None) -> None:
    """For clients that send something."""


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def test_connection_without_request_is_closed(address: str, soon: None) -> None:
    with connect(address) as silent:
        assert read_to_end(silent) == b""


def test_unfinished_request_head_gets_408(address: str, soon_after_a_byte: None) -> None:
    with connect(address) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
        assert read_to_end(slow).startswith(b"HTTP/1.1 408 ")


def test_head_byte_at_time_is_given_up(address: str, soon_after_a_byte: None) -> None:
    answer = talk(address, b"GET /health HTTP/1.1\r\n", (b"x" for _ in range(10_000)), pause_s=0.01)
    assert answer.status == 408
    assert answer.sent < 10_000


def test_second_head_has_as_much_time_as_first(address: str, soon_after_a_byte: None) -> None:
    with connect(address) as slow:
        slow.sendall(head("/health", method="GET"))
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")
        slow.sendall(b"GET /hea")
        assert b"HTTP/1.1 408 " in read_to_end(slow)


def test_endless_request_head_gets_431(address: str) -> None:
    lines = (b"X-%d: %s\r\n" % (number, b"x" * 4000) for number in range(10_000))
    answer = talk(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", lines)
    assert answer.status == 431
    assert answer.sent < 1_000_000


def test_head_of_usual_size_comes_in_pieces(address: str) -> None:
    pieces = [HEALTH[start : start + 7] for start in range(0, len(HEALTH), 7)]
    assert talk(address, pieces[0], pieces[1:], pause_s=0.001).status == 200


def test_large_body_is_not_mistaken_for_request_head(address: str) -> None:
    answer = talk(address, head("/chat/send", "Content-Length: 500000", "Connection: close"), [bytes(500_000)])
    assert answer.status == 403  # no CSRF token


def test_many_silent_connections_leave_room(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_WAITING", 20)
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(address)) for _ in range(100)]
        assert talk(address, HEALTH).status == 200
        assert len(connections.GuardedConnection.waiting) <= 20
        assert silent[0].recv(1) == b"", "the one that has waited longest is closed"
        silent[-1].sendall(HEALTH)
        assert silent[-1].recv(65536).startswith(b"HTTP/1.1 200 ")


def test_answer_that_streams_slowly_is_not_cut(soon_after_a_byte: None) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(5):
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
            await asyncio.sleep(0.15)
        await send({"type": "http.response.body", "body": b"end"})

    with running_application(stream) as address, connect(address) as client:
        client.sendall(head("/", "Connection: close", method="GET") + b"\r\n")  # stray bytes, too
        assert b"end" in read_to_end(client)


def test_unread_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.2)
    ended: list[Any] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not ended:
            await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            await asyncio.sleep(0)
            ended.extend(await _left(receive))

    async def _left(receive: Receive) -> list[Any]:
        try:
            async with asyncio.timeout(0.001):
                message = await receive()
        except TimeoutError:
            return []
        return [message] if message["type"] == "http.disconnect" else []

    with running_application(endless) as address, connect(address) as client:
        client.sendall(head("/", method="GET"))
        deadline = time.monotonic() + 20
        while not ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
