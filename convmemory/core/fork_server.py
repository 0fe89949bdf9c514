"""A process that has loaded the program once and forks a child process for each piece of work.

Loading Python and Django takes longer than reading most uploads. Such a process runs `serve`; `ForkServer` in
`child_process.py` starts it. They exchange lines: the server receives the child's arguments and limits as JSON, and
returns the child's process id and then its exit status. There is one child at a time. Imports nothing from Django.
"""

import gc
import io
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from convmemory.core.background import is_background, step_back
from convmemory.core.child_limits import end_with_parent, run_limited

PATIENCE_S = 60.0  # an idle server ends after this time and frees its memory


def serve(prepare: Callable[[], None], work: Callable[[Sequence[str]], None]) -> None:
    """Call `prepare` once, then `work` in a forked child for each line received.

    The process's argument is the process id of its starter.
    """
    end_with_parent(int(sys.argv[1]))
    if is_background():  # like its starter: a new session does not inherit the session's priority
        step_back()
    prepare()
    gc.collect()
    gc.freeze()  # keeps the collector from writing to pages that children share
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as incoming:
        while line := _next_line(incoming):
            child = os.fork()
            if not child:
                _work_as_child(json.loads(line), work)
            _say(child)
            _say(_wait_for(child))


def _next_line(incoming: io.FileIO) -> bytes:
    """Return the next piece of work, or nothing once the starter has ended or has been idle for a while."""
    ready, _, _ = select.select([incoming], [], [], PATIENCE_S)
    return incoming.readline() if ready else b""


def _wait_for(child: int) -> int:
    """Return the child's exit status, once it and every process that it started have ended."""
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _say(number: int) -> None:
    os.write(sys.stdout.fileno(), b"%d\n" % number)


def _work_as_child(arguments: Sequence[str], work: Callable[[Sequence[str]], None]) -> None:
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the server's own output is for its starter alone
    *rest, memory_mb, timeout_s = arguments
    run_limited(work, rest, memory_mb=int(memory_mb), timeout_s=int(timeout_s), parent_pid=os.getppid())
    sys.exit()
