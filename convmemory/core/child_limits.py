"""Limits that a process sets on itself before it touches foreign data: memory, time, and its parent's lifetime.

Imports nothing from Django, so that it can run first.
"""

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence

from convmemory.core.background import is_background, step_back
from convmemory.core.confinement import Access, confine_this_process

EXIT_MEMORY = 70  # the status of a process that ended because memory was short
EXIT_DISK = 71  # and of one that could not write because the disk was full
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PR_SET_PDEATHSIG = 1  # Source: prctl(2)


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
        from convmemory.core.safe_tracebacks import safe_traceback

        sys.exit(safe_traceback(error))
