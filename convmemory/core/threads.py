"""Running what uses the database from asynchronous code."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")

# Fewer than the pool has connections, so that pages never wait for agents.
_threads = ThreadPoolExecutor(max(1, settings.DATABASE_POOL_SIZE // 2), thread_name_prefix="database")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread that gives its database connection back."""

    def run() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)
