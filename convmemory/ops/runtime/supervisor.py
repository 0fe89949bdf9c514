"""Keeps a set of processes running: prefixes their output, restarts them with back-off, stops them within seconds.

One thread, one loop over the children's pipes and a wake-up socket for signals. Each child leads a session of its own,
so that Ctrl-C reaches the supervisor alone and the children of a dead child can be found. It does not depend on Django
or on what the children do.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))
# A child that writes without line ends must not fill the supervisor's memory.
MAX_LINE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
KILL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A process to keep running; `command` starts with the path of a program."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Backoff:
    """Computes the delay before a restart: twice as long each time, short again after a stable run."""

    def __init__(self, *, first_s: float = 0.5, longest_s: float = 30.0, stable_s: float = 30.0) -> None:
        self.first_s, self.longest_s, self.stable_s = first_s, longest_s, stable_s
        self._next_s = first_s

    def delay_after(self, ran_for_s: float) -> float:
        if ran_for_s >= self.stable_s:
            self._next_s = self.first_s
        delay_s, self._next_s = self._next_s, min(self._next_s * 2, self.longest_s)
        return delay_s


class LinePrefixer:
    """Turns the chunks of a child's output into whole lines prefixed by its name."""

    def __init__(self, name: str, width: int = 0) -> None:
        self._prefix = f"{name:<{width}} | "
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        while len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]
        return [self._prefixed(line) for line in lines]

    def close(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [self._prefixed(rest)] if rest else []

    def _prefixed(self, line: bytes) -> str:
        return self._prefix + line.decode("utf-8", "replace").rstrip("\r")


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    backoff: Backoff
    lines: LinePrefixer
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float | None = None


class Supervisor:
    """Runs `specs` until a stop signal; `run` returns when all children and their children have ended.

    `write` takes one line of output. `on_start` receives the process numbers after each start. `watch` is called every
    `watch_s` seconds.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        write: Callable[[str], None],
        on_start: Callable[[Mapping[str, int]], None] = lambda pids: None,
        watch: Callable[[], None] = lambda: None,
        watch_s: float = 5.0,
        grace_s: float = 5.5,
        make_backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        width = max(len(spec.name) for spec in specs)
        self._children = [_Child(spec, make_backoff(), LinePrefixer(spec.name, width)) for spec in specs]
        self._write, self._on_start = write, on_start
        self._watch, self._watch_s, self._watch_at = watch, watch_s, time.monotonic() + watch_s
        self._grace_s = grace_s
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def run(self) -> None:
        with self._signals():
            try:
                while not self._stopping:
                    self._start_due()
                    due = [child.restart_at or 0.0 for child in self._children if child.process is None]
                    self._turn(max(0.0, min([self._watch_at, *due]) - time.monotonic()))
            finally:
                self._stop_all()

    def request_stop(self) -> None:
        self._stopping = True

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None and now >= (child.restart_at or 0.0):
                child.process = process = subprocess.Popen(  # noqa: S603
                    [*LAUNCHER, str(os.getpid()), *child.spec.command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONUNBUFFERED": "1", **child.spec.environment},
                    start_new_session=True,
                    bufsize=0,
                )
                child.started_at, child.restart_at = time.monotonic(), None
                assert process.stdout is not None
                os.set_blocking(process.stdout.fileno(), False)
                self._selector.register(process.stdout, selectors.EVENT_READ, child)
                self._on_start({running.spec.name: process.pid for running, process in self._running()})
        if now >= self._watch_at:
            self._watch()
            self._watch_at = time.monotonic() + self._watch_s

    def _turn(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, _Child) and key.data.process is not None:
                self._read(key.data, key.data.process)
            elif isinstance(key.fileobj, socket.socket):
                with contextlib.suppress(BlockingIOError):
                    key.fileobj.recv(READ_BYTES)
        for child, process in self._running():
            if process.poll() is not None:
                self._bury(child, process)

    def _read(self, child: _Child, process: subprocess.Popen[bytes]) -> bool:
        """Write the child's output; return False when there is no more for now."""
        assert process.stdout is not None
        chunk: bytes | None = process.stdout.read(READ_BYTES)  # None: nothing yet; empty: the end
        for line in child.lines.feed(chunk or b""):
            self._write(line)
        if chunk == b"":
            self._forget_output(process)
        return bool(chunk)

    def _forget_output(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is not None and process.stdout in self._selector.get_map():
            self._selector.unregister(process.stdout)

    def _bury(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        """Clean up after a child that ended (its own children, its last output), and schedule its restart."""
        _kill_session(process.pid)
        while self._read(child, process):
            pass
        for line in child.lines.close():
            self._write(line)
        self._forget_output(process)
        assert process.stdout is not None
        process.stdout.close()
        child.process = None
        if not self._stopping:
            delay_s = child.backoff.delay_after(time.monotonic() - child.started_at)
            child.restart_at = time.monotonic() + delay_s
            status = process.returncode
            how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            self._write(f"{child.spec.name} ended ({how}); it starts again in {delay_s:g} s")

    def _stop_all(self) -> None:
        self._stopping = True
        deadline = time.monotonic() + self._grace_s
        for _, process in self._running():
            process.terminate()
        while self._running() and time.monotonic() < deadline:
            self._turn(min(0.2, max(0.0, deadline - time.monotonic())))
        for child, process in self._running():
            self._write(f"{child.spec.name} did not stop within {self._grace_s:g} s and is killed")
            kill_tree(process.pid)
            process.wait()
            self._bury(child, process)
        self._selector.close()

    def _running(self) -> list[tuple[_Child, subprocess.Popen[bytes]]]:
        return [(child, child.process) for child in self._children if child.process is not None]

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Install handlers: stop signals set a flag, and each signal (including a child's death) wakes the loop."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._stopping = True

        ours, kernels = socket.socketpair()
        for end in (ours, kernels):
            os.set_blocking(end.fileno(), False)
        self._selector.register(ours, selectors.EVENT_READ)
        handlers = dict.fromkeys(STOP_SIGNALS, stop) | {signal.SIGCHLD: lambda number, frame: None}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
            del handlers[signal.SIGHUP]
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        before_fd = signal.set_wakeup_fd(kernels.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before_fd)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            kernels.close()


def kill_tree(pid: int) -> None:
    """Kill a process, all its descendants and the rest of its session."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    _kill_session(pid)


def session_members(leader: int) -> list[psutil.Process]:
    """Return the living processes of the session that `leader` started, even if the leader is dead."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def _kill_session(leader: int) -> None:
    """Kill a session and wait until its processes have released their resources, such as locks."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)  # in one call, so that no process forks between two look-ups
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (members := session_members(leader)) and time.monotonic() < deadline:
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.02)
