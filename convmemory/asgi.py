"""The ASGI application: Django for HTTP, and the server's start and end (lifespan).

Started by `manage.py up`, or by any ASGI server as `convmemory.asgi:application`. At the end it stores
what was measured, closes the database pools and leaves the embedded server, because uvicorn ends its
process without exit handlers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

django_application: Callable[..., Awaitable[None]] = get_asgi_application()


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await django_application(scope, receive, send)
    elif scope["type"] == "lifespan":
        await _lifespan(receive, send)
    else:
        await send({"type": "websocket.close", "code": 1000})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await asyncio.to_thread(_leave_database)
            await send({"type": "lifespan.shutdown.complete"})
            return


def _leave_database() -> None:
    from convmemory.core import embedded
    from convmemory.core.postgres.base import close_pools
    from convmemory.ops.measures import flush

    flush()
    close_pools()
    embedded.leave()
