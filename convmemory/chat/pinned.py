"""Connections to public addresses only, for endpoints that users enter.

The name is resolved when a connection is opened, all of its addresses are checked, and the connection goes to a checked
address, so that a name which resolves differently the second time has no effect (DNS rebinding). TLS still checks the
name. Proxies set in the environment are not used, because they would resolve the name themselves.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from convmemory.chat.addresses import is_public, private_message
from convmemory.core.errors import AddressRefused

RESOLVE_TIMEOUT_S = 10.0


async def public_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of `host`. Raises: AddressRefused if one of them is not public; OSError if it has none."""
    async with asyncio.timeout(RESOLVE_TIMEOUT_S):
        infos = await asyncio.to_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in infos))
    if not all(is_public(ipaddress.ip_address(address)) for address in addresses):
        raise AddressRefused(private_message(host))
    return addresses


class PublicBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections as the usual backend does, but only to checked addresses."""

    def __init__(self) -> None:
        self._inner: httpcore2.AsyncNetworkBackend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await public_addresses(host, port)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} has no address: {error}") from error
        # Connect to the first of the addresses that answers.
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class PublicTransport(httpx2.AsyncHTTPTransport):
    """The client's usual transport over `PublicBackend`."""

    def __init__(self, limits: httpx2.Limits) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=limits.max_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=PublicBackend(),
        )
