"""Running what uses the database from asynchronous code."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")

# Together fewer than the pool has connections, so that pages never wait for agents. Tools are apart: slow ones wait
# for each other, and never keep a heartbeat or the end of a reply from the database.
_threads = ThreadPoolExecutor(max(1, settings.DATABASE_POOL_SIZE // 2), thread_name_prefix="database")
_tools = ThreadPoolExecutor(max(1, settings.DATABASE_POOL_SIZE // 4), thread_name_prefix="tools")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread that gives its database connection back."""
    return await _run(_threads, lambda: function(*args, **kwargs))


async def in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same in one of the few threads in which tools run."""
    return await _run(_tools, lambda: function(*args, **kwargs))


async def _run(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    def run() -> T:
        try:
            return call()
        finally:
            connections.close_all()

    return await asyncio.get_running_loop().run_in_executor(threads, run)
