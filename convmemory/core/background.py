"""Letting what somebody waits for, pages and searches, go before background work."""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
AUTOGROUP = Path("/proc/self/autogroup")


def step_back() -> None:
    """Take less of the processors than processes of the usual priority, where these are short.

    Linux weighs whole sessions against each other first and niceness only within one; so a process that leads a
    session of its own, as the supervisor's do, says it for the session, too. Source: sched(7), "The autogroup feature".
    """
    _set_niceness(os.getpid())
    if os.getsid(0) == os.getpid():
        _set_session_niceness(AUTOGROUP)


def is_background() -> bool:
    """Whether this process, or the one that started it, has stepped back."""
    return os.getpriority(os.PRIO_PROCESS, 0) >= NICENESS


def push_back(process_id: int) -> None:
    """Let another process step back, which leads a session of its own; nothing happens where that is not allowed."""
    with suppress(OSError):
        _set_niceness(process_id)
        _set_session_niceness(Path(f"/proc/{process_id}/autogroup"))


def _set_niceness(process_id: int) -> None:
    os.setpriority(os.PRIO_PROCESS, process_id, max(NICENESS, os.getpriority(os.PRIO_PROCESS, process_id)))


def _set_session_niceness(autogroup: Path) -> None:
    if autogroup.exists():
        with suppress(OSError):  # the kernel takes it only now and then, and not everywhere
            autogroup.write_text(str(NICENESS), encoding="ascii")
