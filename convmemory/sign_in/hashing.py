"""One thread that hashes passwords at a low priority, with a short queue.

A hash deliberately takes a core for a third of a second. Without a limit, many wrong passwords at once would take every
core and database connection away from searches, which then waited up to 19 s
(docs/adr/0022-http-limits-before-django.md). `hashlib` releases the interpreter lock while it hashes, so one extra
thread is enough.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection

from convmemory.core.errors import ConvMemoryError

T = TypeVar("T")

THREADS = 1
PLACES = 8  # running and waiting hashes; at a third of a second each, more would wait too long
NICENESS = 10
RETRY_AFTER_S = 5


class HashingBusy(ConvMemoryError):
    """More passwords wait than can be checked soon; `retry_after_s` is the pause before a retry, in seconds."""

    retry_after_s = RETRY_AFTER_S

    def __init__(self) -> None:
        super().__init__("Many people are signing in at this moment. Try again in some seconds; nothing was changed.")


class HashingPool:
    """Runs functions in its own threads; at most `places` run or wait at once."""

    def __init__(self, *, threads: int, places: int) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="hashing", initializer=_step_back)

    def run(self, function: Callable[[], T]) -> T:
        """Return the result of the function. Raises: HashingBusy at once if all places are taken."""
        if not self._places.acquire(blocking=False):
            raise HashingBusy
        try:
            # Database connections are few: give this one back while waiting for the hash.
            if not connection.in_atomic_block:
                connection.close()
            return self._threads.submit(function).result()
        finally:
            self._places.release()


@cache
def hashing_pool() -> HashingPool:
    """Return the pool of this process."""
    return HashingPool(threads=THREADS, places=PLACES)


os.register_at_fork(after_in_child=hashing_pool.cache_clear)  # a forked child inherits the pool without its threads


class PooledHasher(PBKDF2PasswordHasher):
    """Django's hasher, run in the pool; the hashes are the same."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Hash the password in the pool. Raises: HashingBusy."""
        return hashing_pool().run(partial(super().encode, password, salt, iterations))


def _step_back() -> None:
    """Lower the thread's priority, so that searches run first.

    Linux has one priority per thread, although the call names a process.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
