"""The ASGI application: Django and MCP for HTTP within the limits of `http_limits`, and the server's start and end
(lifespan).

Started by `manage.py up`, or by any ASGI server as `convmemory.asgi:application`. As it starts it loads the model that
the first search needs. While it runs it releases conversations of dead processes. At the end it waits for replies
(`core/web/stopping.py`), stores those in progress and measurements, closes the database pools and leaves the embedded
server, because uvicorn ends its process without exit handlers.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable

import django

from convmemory.core.web.asgi_types import Receive, Scope, Send, with_bearer

THREAD_TURN_S = 0.001  # a search waits a dozen times for the interpreter lock; Python's default is 5 ms

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")

gc.disable()  # as in manage.py, while the program is loaded
django.setup(set_prefix=False)

from convmemory.core.web import stopping  # noqa: E402
from convmemory.core.web.handler import Handler  # noqa: E402
from convmemory.http_limits.concurrency import ConcurrencyLimit  # noqa: E402
from convmemory.http_limits.refusals import HealthCheckHosts, HttpsOnly, PrivateResponses  # noqa: E402 (Django has to be set up before)
from convmemory.mcp_server import http as mcp_http  # noqa: E402

gc.enable()


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    inner = _mcp if mcp_http.is_mcp(scope["path"]) else _django
    await inner(scope, receive, send)


_django: Callable[..., Awaitable[None]] = Handler()
_mcp = HttpsOnly(mcp_http.application)
_guarded = PrivateResponses(ConcurrencyLimit(HealthCheckHosts(_answer)))


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await _guarded(with_bearer(scope), receive, send)
    elif scope["type"] == "lifespan":
        from convmemory.chat.live import chat_is_running
        from convmemory.core.threads import in_thread
        from convmemory.ops.observability import tracing
        from convmemory.ops.runtime.warming import load_models

        await receive()  # lifespan.startup
        tracing.start()
        stopping.delay_sigterm()
        sys.setswitchinterval(THREAD_TURN_S)
        async with chat_is_running():
            gc.collect()
            gc.freeze()  # loaded modules stay for good; a full collection of them takes 0.1 s
            preparing = asyncio.create_task(in_thread(load_models, for_searches=True))
            await send({"type": "lifespan.startup.complete"})
            await receive()  # lifespan.shutdown
            await preparing
        await asyncio.to_thread(tracing.stop)
        await asyncio.to_thread(_leave_database)
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send({"type": "websocket.close", "code": 1000})


def _leave_database() -> None:
    from convmemory.core.postgres import embedded
    from convmemory.core.postgres.base import close_pools
    from convmemory.ops.observability.measures import flush

    flush()
    close_pools()
    embedded.leave()
