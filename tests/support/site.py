"""The product's own pages and API under uvicorn, with its database work on the test's database."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from convmemory.chat.live import chat_is_running
from convmemory.core import threads
from convmemory.core.web.asgi_types import with_bearer
from convmemory.core.web.handler import Handler
from tests.support.asgi_thread import running_application
from tests.support.patience import ANSWER_S
from tests.support.pooling import pooled_connections

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


@contextmanager
def running_site(at: socket.socket | None = None) -> Iterator[str]:
    """The address, that of the listening socket `at` if there is one.

    The server's start and end are the product's, but for the database, which the tests share.
    """
    django = Handler()

    async def application(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await django(dict(with_bearer(scope)), receive, send)

    with pooled_connections():
        try:
            with running_application(application, lifespan="on", at=at) as address:
                yield address
        finally:
            for name, pool in (("database", threads._threads), ("tools", threads._tools)):
                asyncio.run(_until_idle(name, pool))


async def _lifespan(receive: Receive, send: Send) -> None:
    await receive()
    async with chat_is_running():
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _until_idle(name: str, pool: threads.DatabaseThreads) -> None:
    """Waits for the calls of requests that were cut off: each runs to its end, and may hold what the test empties."""
    size = sum(thread.name.startswith(f"{name}-") for thread in threading.enumerate())
    if size:
        all_here = threading.Barrier(size)
        await asyncio.gather(*(pool.run(lambda: all_here.wait(ANSWER_S)) for _ in range(size)))
