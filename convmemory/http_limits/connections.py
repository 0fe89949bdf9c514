"""uvicorn's HTTP protocol, extended so that clients that send no request are disconnected.

uvicorn closes a connection that is idle after a response, but waits without limit for the first request, and for the
rest of a request's head. Here a head must arrive within `REQUEST_IDLE_S` seconds of its first byte and have at most
`MAX_HEAD_BYTES`; at most `MAX_WAITING` connections may be waiting (the one that has waited longest is closed); and a
client that stops reading its response is disconnected after `UNREAD_S` seconds. A stream is never ended for being slow.
`manage.py up` starts uvicorn with `--http convmemory.http_limits.connections:GuardedConnection`; in front of another
server a proxy has to do the same.
"""

import asyncio
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from convmemory.core.config import config
from convmemory.core.web.remote_user import PEER

MAX_HEAD_BYTES = 64 * 1024
# Each costs memory and a descriptor. Without the bound, 600 connections that sent nothing stayed open (ADR 22).
MAX_WAITING = 512
UNREAD_S = 60.0  # for a client that reads nothing; a slow one is not affected


class GuardedConnection(HttpToolsProtocol):
    """One connection of a client."""

    waiting: ClassVar[dict["GuardedConnection", None]] = {}
    """The connections of this process on which no request is being answered, longest waiting first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._heads = 0
        self._head_bytes = 0  # of the arriving head
        self._in_head = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._await_head()
        self._wait()

    def data_received(self, data: bytes) -> None:
        was_in_head, heads = self._in_head, self._heads
        super().data_received(data)
        if not (was_in_head and self._in_head and self._heads == heads):
            return
        self._head_bytes += len(data)
        self._await_head()
        if self._head_bytes > MAX_HEAD_BYTES:
            self._turn_away(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # uvicorn replaces the client by the one that a trusted proxy names.
        cast("dict[str, Any]", self.scope)[PEER] = self.client[0] if self.client else ""

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        self._head_bytes = 0
        self._end_head_timer()
        self.waiting.pop(self, None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.pipeline and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        self._end_unread_timer()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(config.request_idle_s, self._head_is_late)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:  # else a response is still being sent
            self._turn_away(b"408 Request Timeout" if self._head_bytes else b"")

    def _turn_away(self, status: bytes) -> None:
        """Close the connection, with a status if that can still be sent."""
        if self.transport.is_closing():
            return
        if status and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()

    def _wait(self) -> None:
        self.waiting.pop(self, None)
        self.waiting[self] = None
        if len(self.waiting) > MAX_WAITING:
            longest = next(iter(self.waiting))
            del self.waiting[longest]
            longest.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_unread_timer()
        self._unread_timer = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_unread_timer()

    def _end_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
