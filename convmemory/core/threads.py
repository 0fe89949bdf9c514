"""Running what uses the database from asynchronous code."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


class DatabaseThreads:
    """A few threads that give their database connections back when nobody waits for a thread any more."""

    def __init__(self, size: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(max(1, size), thread_name_prefix=name)
        self._lock = Lock()
        self._waiting = 0

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` returns."""
        self._count(1)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, call)

    def _run(self, call: Callable[[], T]) -> T:
        self._count(-1)
        is_sound = False
        try:
            result = call()
            is_sound = True
            return result
        finally:
            # The next call takes the connection over: to give one back and get another costs more than a short query.
            if not is_sound or not self._waiting:
                connections.close_all()

    def _count(self, more: int) -> None:
        with self._lock:
            self._waiting += more


# Together fewer than the pool has connections, so that pages never wait for agents. Tools are apart: slow ones wait
# for each other, and never keep a heartbeat or the end of a reply from the database.
_threads = DatabaseThreads(settings.DATABASE_POOL_SIZE // 2, "database")
_tools = DatabaseThreads(settings.DATABASE_POOL_SIZE // 4, "tools")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread that gives its database connection back."""
    return await _threads.run(lambda: function(*args, **kwargs))


async def in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same in one of the few threads in which tools run."""
    return await _tools.run(lambda: function(*args, **kwargs))
