"""Lets a worker stop when SIGTERM reaches all of its processes, as from systemd with `KillMode=control-group`.

django-q2's main process sets an event that its sentinel waits for. A sentinel that dies of the same signal never wakes,
and `multiprocessing` waits for that without a limit; a worker process that dies while it waits for a task keeps the
lock of the queue. Here only the main process obeys the signal, and tasks in work are completed.
"""

import multiprocessing
import signal
from typing import Any

from django_q import cluster


class Sentinel(cluster.Sentinel):  # type: ignore[misc]
    """The process that starts, watches and stops the worker processes."""

    def start(self) -> None:
        # Forked processes inherit it. Programs that tasks start do not, as they would SIG_IGN, and end when told.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        try:
            super().start()
        finally:
            for child in multiprocessing.active_children():
                child.kill()  # Python would send SIGTERM and wait

    def reincarnate(self, process: Any) -> None:
        """Replace a process that has ended, or that exceeds the time limit of its task."""
        if process in self.pool and process.timer.value == 0:
            process.kill()
        super().reincarnate(process)


def install() -> None:
    """Make django-q2 use this sentinel."""
    cluster.Sentinel = Sentinel
