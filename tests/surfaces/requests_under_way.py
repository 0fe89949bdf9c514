"""Waiting until the server has done with what a closed browser had asked for.

A request that its client no longer waits for is worked on all the same. One that meets the end of a test would read
tables that are being emptied: a deadlock, and rows that the next test finds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.signals import request_finished, request_started

PATIENCE_S = 60.0


class _Count:
    """The number of requests that this process has begun to answer and not ended."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.value = 0
        request_started.connect(self._begin)
        request_finished.connect(self._end)

    def _begin(self, **_: Any) -> None:
        with self.changed:
            self.value += 1

    def _end(self, **_: Any) -> None:
        with self.changed:
            self.value -= 1
            self.changed.notify_all()


_count = _Count()


@contextmanager
def all_answered() -> Iterator[None]:
    """At the end, waits until no more requests are worked on than at the beginning."""
    before = _count.value
    yield
    with _count.changed:
        _count.changed.wait_for(lambda: _count.value <= before, PATIENCE_S)
