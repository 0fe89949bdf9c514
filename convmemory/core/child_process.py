"""Runs a module of this program in a supervised child process under limits, for work on foreign data.

The child sets its own limits first (`child_limits.py`) and exits with `EXIT_MEMORY` if memory runs out. The parent ends
the child when its time is over or its result is no longer wanted, and keeps no database connection meanwhile.
`run_child` starts the module; `run_forked_child` has it forked by a server that has already loaded the program
(`fork_server.py`).
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from django.db import connection

from convmemory.core.child_limits import EXIT_DISK, EXIT_MEMORY
from convmemory.core.fork_server import PATIENCE_S
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
    DISK_FULL = "disk full"
    LOST = "lost"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What the child may use."""

    memory_mb: int
    timeout_s: int

    def arguments(self) -> list[str]:
        """The child's last arguments: megabytes and seconds."""
        return [str(self.memory_mb), str(self.timeout_s + GRACE_S)]


class Child(Protocol):
    """A process that can be waited for, like `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises: subprocess.TimeoutExpired."""


def plain_environment() -> dict[str, str]:
    """The environment for a child that converts files: no address, password or key of the installation."""
    return {name: os.environ[name] for name in PLAIN if name in os.environ}


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    limits: ChildLimits,
    environment: Mapping[str, str],
    is_wanted: Callable[[], bool] = lambda: True,
) -> Ending:
    """Run `python -m module arguments... limits... PARENT` until it ends or is ended.

    `is_wanted` is called every `HEARTBEAT_S`; when it returns False, the child is ended and counts as lost.
    """
    _let_connection_go()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, *arguments, *limits.arguments(), str(os.getpid())],
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


def run_forked_child(
    module: str,
    arguments: Sequence[str],
    *,
    limits: ChildLimits,
    environment: Mapping[str, str],
    is_wanted: Callable[[], bool] = lambda: True,
) -> Ending:
    """Like `run_child`, for a module that calls `fork_server.serve`: only the first child loads it."""
    _let_connection_go()
    server = _take_server(module, environment)
    try:
        child = server.fork([*arguments, *limits.arguments()])
    except BrokenPipeError:
        server.close()
        logger.error("The fork server %s did not start or has ended", module)
        return Ending.CRASHED
    try:
        return _watch(child, module, time.monotonic() + limits.timeout_s, is_wanted)
    finally:
        child.kill()
        child.wait()
        _idle_servers.append(server)


def _take_server(module: str, environment: Mapping[str, str]) -> "ForkServer":
    """An idle server that was started in the same way, else a new one; servers that are no longer usable are ended."""
    while _idle_servers:
        server = _idle_servers.pop()
        if server.is_of_use(module, environment):
            return server
        server.close()
    return ForkServer(module, environment)


class ForkServer:
    """A running `python -m module PARENT` that calls `fork_server.serve`."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._started_as = module, dict(environment)
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", module, str(os.getpid())],
            cwd=PathOptions.from_settings().base_dir,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._last_used = time.monotonic()

    def is_of_use(self, module: str, environment: Mapping[str, str]) -> bool:
        """Whether it runs this module in this environment and will wait long enough for further work."""
        is_patient = time.monotonic() - self._last_used < PATIENCE_S / 2
        return is_patient and self._started_as == (module, environment) and self._process.poll() is None

    def fork(self, arguments: Sequence[str]) -> "ForkedChild":
        """Raises: BrokenPipeError if the server has ended."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        return ForkedChild(self, self.read_number(None))

    def read_number(self, timeout: float | None) -> int:
        """The next number that the server sends. Raises: subprocess.TimeoutExpired, BrokenPipeError."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self._process.args, timeout or 0)
        self._last_used = time.monotonic()
        line = self._process.stdout.readline()
        if not line:
            raise BrokenPipeError
        return int(line)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@dataclass(slots=True)
class ForkedChild:
    """A child of a fork server, which reports the child's exit status."""

    server: ForkServer
    pid: int
    status: int | None = None

    def kill(self) -> None:
        """End the child if it is still running; its server then ends whatever the child started."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Like `subprocess.Popen.wait`; a child whose server was killed was killed with it."""
        if self.status is None:
            try:
                self.status = self.server.read_number(timeout)
            except BrokenPipeError:
                self.status = -signal.SIGKILL
        return self.status


_idle_servers: list[ForkServer] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle_servers.clear)  # they belong to the parent


def _watch(process: Child, module: str, deadline: float, is_wanted: Callable[[], bool]) -> Ending:
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
    if status == EXIT_DISK:
        return Ending.DISK_FULL
    if status in (EXIT_MEMORY, -signal.SIGALRM):
        return Ending.OUT_OF_MEMORY if status == EXIT_MEMORY else Ending.OUT_OF_TIME
    logger.error("The child process %s ended with status %s", module, status)
    return Ending.CRASHED


def _let_connection_go() -> None:
    if not connection.in_atomic_block:
        connection.close()
