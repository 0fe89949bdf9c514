"""The open connections to chat endpoints: one client per endpoint and event loop, shared by all replies.

Creating a client takes tens of milliseconds, because it loads the certificates; 50 replies that begin at once would
wait for that.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from convmemory.core.completions import Endpoint, make_async_client

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_CLIENTS = 64
MAX_CONNECTIONS = 1_000
# Replies are streamed, so only lists of models are read whole.
MAX_LIST_BYTES = 4 * 1024**2
# Shorter than the 5 s of common servers: a connection that the server closes at the same moment would fail the next
# request.
KEPT_OPEN_S = 2.0

Key = tuple[str, str, float, bool]
_clients: "WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[Key, AsyncOpenAI]]" = WeakKeyDictionary()
_http_clients: "WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient]" = WeakKeyDictionary()


def client_for(endpoint: Endpoint) -> "AsyncOpenAI":
    """Return this event loop's client for the endpoint; only `close_clients` closes it."""
    opened = _clients.setdefault(asyncio.get_running_loop(), OrderedDict())
    key = (endpoint.base_url, endpoint.api_key, endpoint.timeout_s, endpoint.is_public_only)
    if key not in opened:
        opened[key] = _open(endpoint)
        if len(opened) > MAX_CLIENTS:
            opened.popitem(last=False)  # replies that still use it keep it alive
    opened.move_to_end(key)
    return opened[key]


def _open(endpoint: Endpoint) -> "AsyncOpenAI":
    opened = _open_http(timeout=endpoint.timeout_s, is_public_only=endpoint.is_public_only)
    return make_async_client(endpoint, opened).with_options(max_retries=0)


def _open_http(*, timeout: float, is_public_only: bool = False) -> "httpx2.AsyncClient":
    from httpx2 import Limits

    from convmemory.core.endpoint_http import AsyncEndpointClient

    options: dict[str, Any] = {}
    limits = Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_OPEN_S)
    if is_public_only:
        from convmemory.chat.pinned import PublicTransport

        options["transport"] = PublicTransport(limits)
    return AsyncEndpointClient(limits=limits, timeout=timeout, max_body_bytes=MAX_LIST_BYTES, **options)


def http_client(*, timeout_s: float) -> "httpx2.AsyncClient":
    """Return this event loop's plain HTTP client, for the proxy; `timeout_s` limits the wait for the next bytes."""
    loop = asyncio.get_running_loop()
    if loop not in _http_clients:
        _http_clients[loop] = _open_http(timeout=timeout_s)
    return _http_clients[loop]


async def close_clients() -> None:
    """Close the connections of this event loop."""
    loop = asyncio.get_running_loop()
    for client in _clients.pop(loop, OrderedDict()).values():
        await client.close()
    if plain := _http_clients.pop(loop, None):
        await plain.aclose()
