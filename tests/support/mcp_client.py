"""The official MCP client against our server, over HTTP and over standard input and output."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from django.conf import settings
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.web_process import database_environment

TIMEOUT_S = 60
T = TypeVar("T")
Steps = Callable[[Client], Awaitable[T]]
Session = Callable[..., Any]


def over_http(address: str, key: str, steps: Steps[T], *, mode: str = "auto", path: str = "/mcp") -> T:
    """Run `steps` with a client that is connected with this key, and return their result."""

    async def run() -> T:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_S) as http:
            transport = streamable_http_client(f"{address}{path}", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await steps(client)

    return asyncio.run(run())


def over_stdio(user: str, steps: Steps[T], *, mode: str = "auto") -> T:
    """The same over a process of `manage.py mcp` that it starts and ends."""

    async def run() -> T:
        async with Client(stdio_server(user), mode=mode) as client:
            return await steps(client)

    return asyncio.run(run())


def stdio_server(user: str) -> StdioServerParameters:
    """Return the command that starts `manage.py mcp` on the test's own database."""
    return StdioServerParameters(
        command=sys.executable,
        args=["manage.py", "mcp", "--user", user],
        cwd=settings.BASE_DIR,
        env={**os.environ, **database_environment()},
    )
