"""The open connections to chat endpoints: one client per endpoint and event loop, shared by all replies.

Making a client costs tens of milliseconds (it loads the certificates), so that 50 replies beginning at once
would wait for it. Redirects are not followed: an endpoint does not choose what this server fetches.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from convmemory.core.completions import Endpoint, make_async_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_CLIENTS = 64

Key = tuple[str, str, float]
_clients: "WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[Key, AsyncOpenAI]]" = WeakKeyDictionary()


def client_for(endpoint: Endpoint) -> "AsyncOpenAI":
    """The client of this event loop for the endpoint; nobody closes it but `close_clients`."""
    opened = _clients.setdefault(asyncio.get_running_loop(), OrderedDict())
    key = (endpoint.base_url, endpoint.api_key, endpoint.timeout_s)
    if key not in opened:
        opened[key] = _open(endpoint)
        if len(opened) > MAX_CLIENTS:
            opened.popitem(last=False)  # replies that still use it keep it alive
    opened.move_to_end(key)
    return opened[key]


def _open(endpoint: Endpoint) -> "AsyncOpenAI":
    from openai import DefaultAsyncHttpxClient

    client = make_async_client(endpoint)
    http_client = DefaultAsyncHttpxClient(base_url=client.base_url, timeout=client.timeout, follow_redirects=False)
    return client.with_options(http_client=http_client, max_retries=0)


async def close_clients() -> None:
    """Close the connections of this event loop."""
    for client in _clients.pop(asyncio.get_running_loop(), OrderedDict()).values():
        await client.close()
