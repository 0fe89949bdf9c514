"""The product's own pages and API under uvicorn, with its database work on the test's database."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.asgi import get_asgi_application

from convmemory.chat.running import chat_is_running
from tests.support.asgi_thread import running_application

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


@contextmanager
def running_site() -> Iterator[str]:
    """The address. The server's start and end are the product's, but for the database, which the tests share."""
    django = get_asgi_application()

    async def application(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await django(scope, receive, send)

    with running_application(application, lifespan="on") as address:
        yield address


async def _lifespan(receive: Receive, send: Send) -> None:
    await receive()
    async with chat_is_running():
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})
