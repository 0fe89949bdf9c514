"""Limits the size and the slowness of request bodies before anything stores them.

Django writes a whole body to memory or disk before its first middleware runs, so its own limits come too late. Here
Content-Length is checked first, and the bytes that arrive are counted after that. The sender is looked up in the
database only if a body exceeds the limit of anonymous senders; a smaller body costs a comparison.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from django.db import InterfaceError, OperationalError

from convmemory.core.config import config
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.numbers import parse_number
from convmemory.core.program import COMMAND
from convmemory.core.web.asgi_types import DISCONNECT, Message, Receive, Scope, Send, has_body, header
from convmemory.http_limits.refusals import end_refusal, start_refusal
from convmemory.problems import DATABASE_SILENT, Refusal

KB = 1024
MB = 1024 * KB
IMPORT_PATHS = frozenset({"/api/v1/imports", "/import"})
DOCUMENT_PATHS = frozenset({"/api/v1/documents", "/documents"})
MCP_PATH = "/mcp"
MAX_MCP_REQUEST_MB = 1  # the body stays in memory, and the tools' arguments are short
FORM_OVERHEAD = MB  # for an upload's other fields and boundaries; the view checks the file's own size
LINGER_BYTES = 8 * MB  # of a refused body that are read and discarded
LINGER_S = 2.0
LINGER_PAUSE_S = 0.05  # between pieces of a discarded body, so that a flood costs almost no time


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest accepted body in bytes, and the message for a larger one."""

    size: int
    detail: str


def limit_of_strangers() -> Limit:
    kilobytes = config.max_anonymous_request_kb
    return Limit(
        kilobytes * KB,
        f"The request is larger than {kilobytes} kB, the most that this server takes from senders who are not signed "
        "in (MAX_ANONYMOUS_REQUEST_KB). Sign in, or send `Authorization: Bearer KEY` with a valid key, and try again.",
    )


def limit_of_users(path: str, method: str) -> Limit:
    """Return the limit at this address for a signed-in user."""
    if method == "POST" and path.rstrip("/") in IMPORT_PATHS:
        return Limit(
            config.max_upload_mb * MB + FORM_OVERHEAD,
            f"The upload is larger than {config.max_upload_mb} MB (MAX_UPLOAD_MB): upload fewer files at a time, or "
            f"use `{COMMAND} import_conversations` on the server.",
        )
    if method == "POST" and path.rstrip("/") in DOCUMENT_PATHS:
        return Limit(
            config.max_document_mb * MB + FORM_OVERHEAD,
            f"The upload is larger than {config.max_document_mb} MB (MAX_DOCUMENT_MB): split the document, or leave "
            "out its pictures, and upload it again.",
        )
    if path.rstrip("/") == MCP_PATH:
        return Limit(
            min(config.max_request_mb, MAX_MCP_REQUEST_MB) * MB,
            f"The request is larger than {min(config.max_request_mb, MAX_MCP_REQUEST_MB)} MB, the most that this "
            "server takes of one MCP request: shorten the arguments of the tool.",
        )
    return Limit(
        max(config.max_request_mb * MB, config.max_anonymous_request_kb * KB),
        f"The request is larger than {config.max_request_mb} MB (MAX_REQUEST_MB): send it in parts, or upload a file "
        "to POST /api/v1/imports.",
    )


class Body:
    """The body of one request, as the application receives it, within the limits of size and pace."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, knows_sender: Callable[[Scope], Awaitable[bool]]
    ) -> None:
        self._scope, self._receive, self._send, self._knows_sender = scope, receive, send, knows_sender
        self._limit: Limit | None = None  # None until the body exceeds the anonymous limit
        self._size = 0
        self._started: float | None = None
        self._complete, self._refused = not has_body(scope), False

    async def has_accepted_length(self) -> bool:
        """Return whether the announced length is accepted; where it is not, the request is answered."""
        # A Content-Length that is missing or no number counts as 0: what arrives is counted in any case.
        return await self._may_be_as_large_as(parse_number(header(self._scope, b"content-length")) or 0)

    async def receive(self) -> Message:
        """Return the next piece of the body.

        A body over a limit is refused here, and the application receives a disconnect.
        """
        if self._refused:
            return DISCONNECT
        if self._complete:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        self._started = now if self._started is None else self._started
        left = self._started + config.request_idle_s + self._size / config.request_min_bytes_per_s - now
        try:
            async with asyncio.timeout(max(0.0, min(config.request_idle_s, left))):
                message = await self._receive()
        except TimeoutError:  # the client is silent for too long or too slow on average
            await self._refuse(
                Refusal(
                    HTTPStatus.REQUEST_TIMEOUT,
                    f"The request's body came too slowly: this server waits {config.request_idle_s:g} s for the next "
                    f"piece (REQUEST_IDLE_S) and takes no less than {config.request_min_bytes_per_s} bytes a second "
                    "(REQUEST_MIN_BYTES_PER_S). Send it again over a better connection, or in smaller parts.",
                )
            )
            return DISCONNECT
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        return message if await self._may_be_as_large_as(self._size) else DISCONNECT

    async def send(self, message: Message) -> None:
        """Pass the application's answer on, unless the request was refused here.

        An answer before the end of the body ends the connection, after some of the rest was read: closed at once, the
        connection would be reset, and the answer lost.
        """
        if self._refused:
            return
        if message["type"] == "http.response.start" and not self._complete:
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and not self._complete:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _may_be_as_large_as(self, size: int) -> bool:
        """Return whether a body of so many bytes is accepted; where it is not, the request is answered."""
        if size <= config.max_anonymous_request_kb * KB:
            return True
        try:
            self._limit = self._limit or (
                limit_of_users(self._scope["path"], self._scope["method"])
                if await self._knows_sender(self._scope)
                else limit_of_strangers()
            )
        except (OperationalError, InterfaceError, DatabaseUnavailable):
            await self._refuse(DATABASE_SILENT)
            return False
        if size <= self._limit.size:
            return True
        await self._refuse(Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._limit.detail))
        return False

    async def _refuse(self, refusal: Refusal) -> None:
        self._refused = True
        await start_refusal(self._scope, self._send, refusal)
        if not self._complete and refusal.status is not HTTPStatus.REQUEST_TIMEOUT:
            await self._linger()
        await end_refusal(self._send)

    async def _linger(self) -> None:
        """Read and discard a little more of the body: closed at once, the connection is reset, and the answer lost."""
        thrown = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while thrown < LINGER_BYTES:
                    message = await self._receive()
                    thrown += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        self._complete = True
                        return
                    await asyncio.sleep(LINGER_PAUSE_S)
        except TimeoutError:
            return
