"""Headers of every response to a program: no cache stores it, and no browser guesses its type.

This is the outermost wrapper, so that it covers Django, the MCP server, refusals and failures.
"""

import logging
import math
from http import HTTPStatus

from convmemory.core.asgi_types import Application, Message, Receive, Scope, Send
from convmemory.edge.refusals import Refusal, refuse
from convmemory.edge.wire import is_for_programs
from convmemory.problems import told

logger = logging.getLogger(__name__)

NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
PROBES = frozenset({"/health", "/ready", "/metrics"})


class PrivateAnswers:
    """Adds `no-store` and `nosniff` to responses to programs, and answers every failure of the application."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_private = is_for_programs(scope["path"]) or scope["path"] in PROBES
        started = False

        async def send_private(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if is_private:
                    message = {**message, "headers": _private(message.get("headers", ()))}
            await send(message)

        try:
            await self._application(scope, receive, send_private)
        except Exception as error:  # the boundary of the request: uvicorn's own answer would lack the headers
            if started:
                raise
            logger.exception("A request could not be answered")
            await refuse(scope, send_private, _refusal_of(error))


def _refusal_of(error: Exception) -> Refusal:
    """Return the response to an error outside of every view, such as a full disk while Django stores a body."""
    said = told(error)
    if said is None:
        return _FAILED
    return Refusal(said.status, said.detail, None if said.retry_after_s is None else math.ceil(said.retry_after_s))


_FAILED = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "Something broke on the server; its log says what.")


def _private(headers: object) -> list[tuple[bytes, bytes]]:
    given: list[tuple[bytes, bytes]] = [(bytes(name), bytes(value)) for name, value in headers]  # type: ignore[attr-defined]
    kept = [(name, value) for name, value in given if name.lower() not in (NO_STORE[0], NO_SNIFF[0])]
    return [*kept, NO_STORE, NO_SNIFF]
