"""The supervisor with small children of its own: output, restarts, and an end that leaves no process behind."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import psutil
import pytest

from convmemory.ops.runtime.supervisor import Backoff, ChildSpec, LinePrefixer, Supervisor, session_members


class TestBackoff:
    def test_delay_doubles_up_to_longest_s(self) -> None:
        backoff = Backoff(first_s=0.5, longest_s=3, stable_s=30)

        assert [backoff.delay_after(1) for _ in range(5)] == [0.5, 1, 2, 3, 3]

    def test_is_short_again_after_stable_run(self) -> None:
        backoff = Backoff(first_s=0.5, longest_s=3, stable_s=30)
        backoff.delay_after(1)
        backoff.delay_after(1)

        assert backoff.delay_after(30) == 0.5
        assert backoff.delay_after(1) == 1


class TestLinePrefixer:
    def test_puts_name_before_each_line_of_any_chunks(self) -> None:
        lines = LinePrefixer("web", width=6)

        assert lines.feed(b"one\ntw") == ["web    | one"]
        assert lines.feed(b"o\r\n\n") == ["web    | two", "web    | "]
        assert lines.close() == []

    def test_gives_out_unfinished_line_at_end(self) -> None:
        lines = LinePrefixer("web")
        lines.feed("über".encode()[:1])

        assert lines.close() == ["web | \ufffd"]

    def test_cuts_line_that_never_ends(self) -> None:
        lines = LinePrefixer("web").feed(b"x" * 200_000)

        assert [len(line) for line in lines] == [len("web | ") + 65536] * 3


class Run:
    """A supervisor over Python snippets, which stops itself when `done` says so."""

    def __init__(self, *, grace_s: float = 60, **snippets: str) -> None:
        self.lines: list[str] = []
        self.pids: dict[str, list[int]] = {}
        specs = [ChildSpec(name, [sys.executable, "-c", code]) for name, code in snippets.items()]
        self.supervisor = Supervisor(
            specs,
            write=self.lines.append,
            on_start=self._started,
            grace_s=grace_s,
            make_backoff=lambda: Backoff(first_s=0.02),
        )

    def _started(self, pids: Mapping[str, int]) -> None:
        for name, pid in pids.items():
            if pid not in self.pids.setdefault(name, []):
                self.pids[name].append(pid)

    def until(self, done: Callable[[], object], *, stop: Callable[[], None] | None = None) -> float:
        """Runs until `done`, then stops; how many seconds the stop took."""
        asked_at = 0.0

        def watch() -> None:
            nonlocal asked_at
            deadline = time.monotonic() + 60
            while not done() and time.monotonic() < deadline:
                time.sleep(0.01)
            asked_at = time.monotonic()
            (stop or (lambda: os.kill(os.getpid(), signal.SIGTERM)))()

        watcher = threading.Thread(target=watch)
        watcher.start()
        self.supervisor.run()
        took_s = time.monotonic() - asked_at
        watcher.join()
        assert done(), self.lines
        return took_s


def left_after_a_while(leader: int) -> list[psutil.Process]:
    """Return the processes left in its session after at most 30 s; those of these tests live for 60 s."""
    deadline = time.monotonic() + 30
    while (members := session_members(leader)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return members


def test_output_is_prefixed_and_dead_child_starts_again() -> None:
    run = Run(web="print('hello', flush=True); raise SystemExit(3)", worker="import time; time.sleep(60)")

    run.until(lambda: len(run.pids.get("web", [])) >= 3)

    assert run.lines[0] == "web    | hello"
    assert "web ended (exit status 3); it starts again in 0.02 s" in run.lines
    assert "web ended (exit status 3); it starts again in 0.04 s" in run.lines
    assert len(run.pids["worker"]) == 1
    assert not any(psutil.pid_exists(pid) for pids in run.pids.values() for pid in pids)


@pytest.fixture
def hangup_counts() -> Iterator[None]:
    """Under nohup the supervisor ignores SIGHUP on purpose; these tests may run under it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_counts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stop_signal_ends_children_that_end_when_told(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    run = Run(web="import time; print('up', flush=True); time.sleep(60)")

    took_s = run.until(lambda: run.lines, stop=lambda: os.kill(os.getpid(), number))

    assert took_s < 30
    assert run.lines == ["web | up"]
    assert signal.getsignal(number) is before


def test_child_that_ignores_signal_is_killed_with_its_own_children() -> None:
    code = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; print('inner', flush=True); time.sleep(60)"])
time.sleep(60)
"""
    run = Run(grace_s=0.3, worker=code)

    took_s = run.until(lambda: run.lines)

    assert took_s < 30
    assert run.lines[-1] == "worker did not stop within 0.3 s and is killed"
    assert left_after_a_while(run.pids["worker"][0]) == []


def test_orphans_of_killed_child_are_ended_on_restart() -> None:
    code = """
import os, signal, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; print('inner', flush=True); time.sleep(60)"])
time.sleep(0.4)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = Run(worker=code)

    run.until(lambda: len(run.pids.get("worker", [])) >= 2)

    assert "worker ended (killed by SIGKILL); it starts again in 0.02 s" in run.lines
    assert left_after_a_while(run.pids["worker"][0]) == []


def test_child_is_ended_when_supervisor_dies() -> None:
    if sys.platform != "linux":
        pytest.skip("the kernel call is Linux's")
    code = """
import os, signal, sys, threading
from convmemory.ops.runtime.supervisor import ChildSpec, Supervisor
child = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]
def write(line):
    print(line.split()[-1], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
Supervisor([ChildSpec("child", child)], write=write).run()
"""
    import subprocess

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert result.returncode == -signal.SIGKILL
    assert left_after_a_while(int(result.stdout)) == []
