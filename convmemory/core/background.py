"""Gives interactive work, such as pages and searches, priority over background work."""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
AUTOGROUP = Path("/proc/self/autogroup")


def step_back() -> None:
    """Lower this process's priority, so that it gets less processor time while others are busy.

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
