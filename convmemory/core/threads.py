"""Runs database work for asynchronous code in threads."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, PriorityQueue
from threading import Thread
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from django.db import connections
from django.utils import translation

from convmemory.core.config import config

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S = 0.5  # max seconds a background call yields to requests without a first byte


@dataclass(frozen=True, slots=True, order=True)
class _Call:
    """A call in the queue.

    Calls run in the order of `due`, then of `number`, so that a patient call does not wait for ever.
    """

    due: float
    number: int
    function: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)

    def run(self) -> Callable[[], None]:
        """Run the function; the returned callable delivers the outcome to the waiting caller.

        After an error the connection is not reused.
        """
        if not self.future.set_running_or_notify_cancel():
            return lambda: None
        try:
            return partial(self.future.set_result, self.function())
        except BaseException as error:  # the boundary of the thread: the waiting caller gets it
            _close_connections()
            return partial(self.future.set_exception, error)


class DatabaseThreads:
    """A few threads that keep their connection for the next waiting call, and return it to the pool if there is none.

    Returning a connection and getting another one for every call would cost more than a short query.
    """

    def __init__(self, size: int, name: str) -> None:
        self._calls: PriorityQueue[_Call] = PriorityQueue()
        self._numbers = count()
        self._unstarted = [Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(size)]

    async def run(self, function: Callable[[], T], *, patience_s: float = 0.0) -> T:
        """Return or raise the outcome of `function`, run in the caller's context and language; calls with less patience
        may run first.
        """
        future: Future[T] = Future()
        call = partial(copy_context().run, _in_language, translation.get_language(), function)
        self._calls.put(_Call(monotonic() + patience_s, next(self._numbers), call, future))
        while self._unstarted:
            self._unstarted.pop().start()
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        following: _Call | None = None
        while True:
            tell = (following or self._calls.get()).run()
            try:
                following = self._calls.get_nowait()
            except Empty:
                following = None
            if following is None:
                _close_connections()
            tell()


def _in_language(language: str | None, function: Callable[[], T]) -> T:
    """Return the outcome of `function`. The copied context has none: asgiref reads its values in one thread only."""
    if language:
        translation.activate(language)
    return function()


def _close_connections() -> None:
    try:
        connections.close_all()
    except Exception:  # an error here would end the thread, and its callers would wait for ever
        logger.exception("A database connection could not be given back")


# Together fewer than the pool has connections, so that pages never wait for agents. Tools are apart: slow ones wait
# for each other, and never keep a heartbeat or the end of a reply from the database.
_threads = DatabaseThreads(max(1, config.database_pool_size // 2), "database")
_tools = DatabaseThreads(max(1, config.database_pool_size // 4), "tools")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `function`, run in a thread that returns its database connection."""
    return await _threads.run(lambda: function(*args, **kwargs), patience_s=PATIENCE_S)


async def first_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `function` like `in_thread`, ahead of other waiting calls.

    For a request that has not sent any output yet.
    """
    return await _threads.run(lambda: function(*args, **kwargs))


async def in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `function` like `in_thread`, in one of the few threads that run tools."""
    return await _tools.run(lambda: function(*args, **kwargs))
