"""Limits that a process sets on itself before foreign data, a server that forks such processes, and priorities.

Imports nothing from Django, so that it can run first.
"""

import errno
import gc
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from convmemory.core.processes.confinement import Access, confine_this_process

EXIT_MEMORY = 70  # the status of a process that ended because memory was short
EXIT_DISK = 71  # and of one that could not write because the disk was full
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PR_SET_PDEATHSIG = 1  # Source: prctl(2)

IDLE_SERVER_S = 60.0  # an idle server ends after this time and frees its memory

NICENESS = 10
AUTOGROUP = Path("/proc/self/autogroup")


def limit_this_process(*, memory_mb: int, timeout_s: int, parent_pid: int) -> None:
    """Limit this process to `memory_mb` of memory and `timeout_s` of time, without core dumps, and to its parent's
    lifetime.

    When the time is over the kernel ends the process, even inside a function written in C. When memory runs out,
    allocations raise MemoryError. Only Linux ends the process with its parent.
    """
    memory = memory_mb * 1024**2
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # not RLIMIT_AS: that counts what threads only reserve
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    end_with_parent(parent_pid)


def end_with_parent(parent_pid: int) -> None:
    """On Linux, have the kernel end this process as soon as its parent has ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the call above
        sys.exit(1)


def run_under_limits(
    work: Callable[[Sequence[str]], None], *, access: Callable[[Sequence[str]], Access] | None = None
) -> None:
    """Call `work` with this process's arguments; the last three are the limits (megabytes, seconds, parent).

    `access` returns the process's permitted files for its arguments.
    """
    *arguments, memory_mb, timeout_s, parent_pid = sys.argv[1:]
    run_limited(
        work,
        arguments,
        memory_mb=int(memory_mb),
        timeout_s=int(timeout_s),
        parent_pid=int(parent_pid),
        access=access(arguments) if access else None,
    )


def run_limited(
    work: Callable[[Sequence[str]], None],
    arguments: Sequence[str],
    *,
    memory_mb: int,
    timeout_s: int,
    parent_pid: int,
    access: Access | None = None,
) -> None:
    """Call `work` with `arguments` under these limits, confined to `access`.

    Exit with `EXIT_MEMORY` if memory runs out, with `EXIT_DISK` if the disk is full.
    """
    limit_this_process(memory_mb=memory_mb, timeout_s=timeout_s, parent_pid=parent_pid)
    if is_background():  # like its parent: a new session does not inherit the session's priority
        step_back()
    if access is not None:
        confine_this_process(access)
    try:
        work(arguments)
    except MemoryError:
        os._exit(EXIT_MEMORY)  # exits at once: clean-up could need memory
    except Exception as error:  # Python's own traceback would quote foreign text
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            os._exit(EXIT_DISK)
        from convmemory.core.logs import safe_traceback

        sys.exit(safe_traceback(error))


def serve(prepare: Callable[[], None], work: Callable[[Sequence[str]], None]) -> None:
    """Call `prepare` once, then `work` in a forked child for each line received.

    Loading Python and Django takes longer than reading most uploads, so that this process loads the program once;
    `ForkServer` in `child_process.py` starts it. They exchange lines: this one receives the child's arguments and
    limits as JSON, and returns the child's process id and then its exit status. There is one child at a time. The
    process's argument is the process id of its starter.
    """
    end_with_parent(int(sys.argv[1]))
    if is_background():  # like its starter: a new session does not inherit the session's priority
        step_back()
    gc.disable()  # as in manage.py, while the program is loaded
    prepare()
    gc.collect()
    gc.freeze()  # keeps the collector from writing to pages that children share
    gc.enable()
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as incoming:
        # Until the starter has ended, or has been idle for a while.
        while select.select([incoming], [], [], IDLE_SERVER_S)[0] and (line := incoming.readline()):
            child = os.fork()
            if not child:
                arguments = json.loads(line)
                os.setsid()
                with open(os.devnull, "rb") as nothing:
                    os.dup2(nothing.fileno(), sys.stdin.fileno())
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the server's own output is for its starter alone
                *rest, memory_mb, timeout_s = arguments
                run_limited(work, rest, memory_mb=int(memory_mb), timeout_s=int(timeout_s), parent_pid=os.getppid())
                sys.exit()
            _say(child)
            # The child's exit status, once it and every process that it started have ended.
            _, status = os.waitpid(child, 0)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    os.write(sys.stdout.fileno(), b"%d\n" % number)


def step_back() -> None:
    """Lower this process's priority, so that pages and searches get the processor first while they are busy.

    Linux first weighs whole sessions against each other, and niceness only within one. A process that leads its own
    session, such as the supervisor's children, therefore lowers the session's priority too. Source: sched(7), "The
    autogroup feature".
    """
    _set_niceness(os.getpid())
    if os.getsid(0) == os.getpid():
        _set_session_niceness(AUTOGROUP)


def is_background() -> bool:
    """Return whether this process, or the process that started it, has lowered its priority."""
    return os.getpriority(os.PRIO_PROCESS, 0) >= NICENESS


def push_back(process_id: int) -> None:
    """Lower the priority of another process that leads its own session; does nothing without permission to do so."""
    with suppress(OSError):
        _set_niceness(process_id)
        _set_session_niceness(Path(f"/proc/{process_id}/autogroup"))


def _set_niceness(process_id: int) -> None:
    if os.getpriority(os.PRIO_PROCESS, process_id) < NICENESS:  # confined processes may not set it
        os.setpriority(os.PRIO_PROCESS, process_id, NICENESS)


def _set_session_niceness(autogroup: Path) -> None:
    if autogroup.exists():
        with suppress(OSError):  # the kernel takes it only now and then, and not everywhere
            autogroup.write_text(str(NICENESS), encoding="ascii")
