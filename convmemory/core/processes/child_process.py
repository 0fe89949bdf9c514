"""Runs a module of this program in a supervised child process under limits, for work on foreign data.

The child sets its own limits first (`child_limits.py`) and exits with `EXIT_MEMORY` if memory runs out. The parent ends
the child when its time is over, when it has worked for some seconds without progress, or when its result is no longer
wanted, and keeps no database connection meanwhile.
`run_child` starts the module; `run_forked_child` has it forked by a server that has already loaded the program
(`child_limits.py`).
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
from pathlib import Path
from typing import Protocol

import psutil
from django.db import connection

from convmemory.core.config import config
from convmemory.core.processes.child_limits import EXIT_DISK, EXIT_MEMORY, IDLE_SERVER_S
from convmemory.core.queue import fair_queue

HEARTBEAT_S = 5.0
PLAIN = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
GRACE_S = 30  # after the limit, the kernel ends a child that its worker should have ended

logger = logging.getLogger(__name__)

_idle_servers: list["ForkServer"] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle_servers.clear)  # they belong to the parent


class Ending(Enum):
    """The outcome of the child process."""

    DONE = "done"
    OUT_OF_TIME = "out of time"
    STALLED = "stalled"
    OUT_OF_MEMORY = "out of memory"
    DISK_FULL = "disk full"
    LOST = "lost"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of a child process; `stall_s` is the processor time that it may use without progress, 0 for any."""

    memory_mb: int
    timeout_s: int
    stall_s: int = 0

    def arguments(self) -> list[str]:
        """Return the child's last arguments: megabytes and seconds."""
        return [str(self.memory_mb), str(self.timeout_s + GRACE_S)]


class Child(Protocol):
    """A process that can be waited for, like `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status. Raises: subprocess.TimeoutExpired."""


def plain_environment() -> dict[str, str]:
    """Return the environment for a child that converts files: no address, password or key of the installation."""
    return {name: os.environ[name] for name in PLAIN if name in os.environ}


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    limits: ChildLimits,
    environment: Mapping[str, str],
    is_wanted: Callable[[], bool] = lambda: True,
    progress: Callable[[], object] = lambda: None,
) -> Ending:
    """Run `python -m module arguments... limits... PARENT` until it ends or is ended.

    `is_wanted` is called every `HEARTBEAT_S`; when it returns False, the child is ended and counts as lost. `progress`
    returns something that changes as the child gets on.
    """
    _let_connection_go()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, *arguments, *limits.arguments(), str(os.getpid())],
        cwd=config.base_dir,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _watch(process, module, limits, is_wanted, progress)
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
    """Run `module`, which calls `child_limits.serve`, like `run_child`: only the first child loads it."""
    _let_connection_go()
    # An idle server that was started in the same way, else a new one; servers that are no longer usable are ended.
    while _idle_servers:
        server = _idle_servers.pop()
        if server.is_of_use(module, environment):
            break
        server.close()
    else:
        server = ForkServer(module, environment)
    try:
        child = server.fork([*arguments, *limits.arguments()])
    except BrokenPipeError:
        server.close()
        logger.error("The fork server %s did not start or has ended", module)
        return Ending.CRASHED
    try:
        return _watch(child, module, limits, is_wanted, lambda: None)
    finally:
        child.kill()
        child.wait()
        _idle_servers.append(server)


class ForkServer:
    """A running `python -m module PARENT` that calls `child_limits.serve`."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._started_as = module, dict(environment)
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", module, str(os.getpid())],
            cwd=config.base_dir,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._last_used = time.monotonic()

    def is_of_use(self, module: str, environment: Mapping[str, str]) -> bool:
        """Return whether it runs this module in this environment and will wait long enough for further work."""
        is_patient = time.monotonic() - self._last_used < IDLE_SERVER_S / 2
        return is_patient and self._started_as == (module, environment) and self._process.poll() is None

    def fork(self, arguments: Sequence[str]) -> "ForkedChild":
        """Fork a child for these arguments. Raises: BrokenPipeError if the server has ended."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        return ForkedChild(self, self.read_number(None))

    def read_number(self, timeout: float | None) -> int:
        """Return the next number that the server sends. Raises: subprocess.TimeoutExpired, BrokenPipeError."""
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
        """Return the exit status, like `subprocess.Popen.wait`; a child whose server was killed was killed with it."""
        if self.status is None:
            try:
                self.status = self.server.read_number(timeout)
            except BrokenPipeError:
                self.status = -signal.SIGKILL
        return self.status


def touched_at(path: Path) -> int:
    """Return the time of the file's or folder's last change, 0 if it does not exist: the progress of a child that
    writes it.
    """
    return path.stat().st_mtime_ns if path.exists() else 0


def _watch(
    process: Child, module: str, limits: ChildLimits, is_wanted: Callable[[], bool], progress: Callable[[], object]
) -> Ending:
    deadline = time.monotonic() + limits.timeout_s
    seen, seen_at_cpu_s = progress(), 0.0
    while True:
        fair_queue.keep_task()
        _let_connection_go()
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=max(0.0, min(HEARTBEAT_S, deadline - time.monotonic())))
            if status == 0:
                return Ending.DONE
            if status == EXIT_DISK:
                return Ending.DISK_FULL
            if status in (EXIT_MEMORY, -signal.SIGALRM):
                return Ending.OUT_OF_MEMORY if status == EXIT_MEMORY else Ending.OUT_OF_TIME
            logger.error("The child process %s ended with status %s", module, status)
            return Ending.CRASHED
        if time.monotonic() >= deadline:
            return Ending.OUT_OF_TIME
        if not is_wanted():
            return Ending.LOST
        if limits.stall_s:
            now, cpu_s = progress(), _cpu_s(process.pid)
            if now != seen:
                seen, seen_at_cpu_s = now, cpu_s
            elif cpu_s - seen_at_cpu_s >= limits.stall_s:
                return Ending.STALLED


def _cpu_s(process_id: int) -> float:
    """Return the processor time that the process has used, so that a slow child on a busy machine is not taken for
    stalled.
    """
    try:
        times = psutil.Process(process_id).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _let_connection_go() -> None:
    # Frees the pooled connection for other work while the child runs, which can take minutes.
    if not connection.in_atomic_block:
        connection.close()
