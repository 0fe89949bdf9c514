"""The threads in which a reply's tools run.

They are few and apart from those of `convmemory.core.threads`: slow tools wait for each other, and never keep
a heartbeat or the end of a reply from the database.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")

_tools = ThreadPoolExecutor(max_workers=2, thread_name_prefix="chat-tools")


async def in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread that gives its database connection back."""
    work = partial(_without_connection_after, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_tools, work)


def _without_connection_after(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return function(*args, **kwargs)
    finally:
        connections.close_all()
