"""Runs a module of this program in a child process under limits, and watches it: for whatever reads foreign data.

The child sets its own limits first (`child_limits.py`) and ends with `EXIT_MEMORY` where memory was short. The parent
ends it when its time is over, or when nobody wants its work any more, and holds no database connection meanwhile.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from django.db import connection

from convmemory.core.child_limits import EXIT_MEMORY
from convmemory.core.options import PathOptions

HEARTBEAT_S = 10.0
PLAIN = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
GRACE_S = 30  # after which the kernel ends a child that its worker should have ended

logger = logging.getLogger(__name__)


class Ending(Enum):
    """How the child process ended."""

    DONE = "done"
    OUT_OF_TIME = "out of time"
    OUT_OF_MEMORY = "out of memory"
    LOST = "lost"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What the child may use."""

    memory_mb: int
    timeout_s: int

    def arguments(self) -> list[str]:
        """The child's last three arguments: megabytes, seconds, this process's number."""
        return [str(self.memory_mb), str(self.timeout_s + GRACE_S), str(os.getpid())]


def plain_environment() -> dict[str, str]:
    """What a child that converts files needs to be told: no address, password or key of the installation."""
    return {name: os.environ[name] for name in PLAIN if name in os.environ}


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    limits: ChildLimits,
    environment: Mapping[str, str],
    is_wanted: Callable[[], bool] = lambda: True,
) -> Ending:
    """Let `python -m module arguments... limits...` work until it ends, by itself or not.

    `is_wanted` is asked every `HEARTBEAT_S`; once it says no, the child is ended and counts as lost.
    """
    _let_connection_go()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, *arguments, *limits.arguments()],
        cwd=PathOptions.from_settings().base_dir,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _watch(process, module, time.monotonic() + limits.timeout_s, is_wanted)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch(process: "subprocess.Popen[bytes]", module: str, deadline: float, is_wanted: Callable[[], bool]) -> Ending:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return _ending_of(process.wait(timeout=max(0.0, min(HEARTBEAT_S, deadline - time.monotonic()))), module)
        if time.monotonic() >= deadline:
            return Ending.OUT_OF_TIME
        if not is_wanted():
            return Ending.LOST
        _let_connection_go()


def _ending_of(status: int, module: str) -> Ending:
    if status == 0:
        return Ending.DONE
    if status in (EXIT_MEMORY, -signal.SIGALRM):
        return Ending.OUT_OF_MEMORY if status == EXIT_MEMORY else Ending.OUT_OF_TIME
    logger.error("The child process %s ended with status %s", module, status)
    return Ending.CRASHED


def _let_connection_go() -> None:
    if not connection.in_atomic_block:
        connection.close()
