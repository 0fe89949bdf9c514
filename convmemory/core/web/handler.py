"""Django's ASGI handler, which gives a request's database connection back before the first byte of its answer is sent.

Django keeps the connection until the answer has been sent, however slowly its client reads: as many clients that read
nothing as the pool has connections would stop a process. And if an answer breaks off, Django never gives it back.
"""

from collections.abc import AsyncIterator, Iterator
from typing import cast

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse

from convmemory.core.threads import in_thread


class Handler(ASGIHandler):
    """Answers requests without a database connection while bytes are sent."""

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        response = await super().run_get_response(request)
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            # Otherwise Django would read a whole file or export into memory.
            response.streaming_content = _in_threads(cast("Iterator[bytes]", response.streaming_content))
        await sync_to_async(connections.close_all)()  # in the request's thread, which opened what is open
        return response


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, each produced in a thread that returns its database connection."""
    while (piece := await in_thread(next, pieces, None)) is not None:
        yield piece
