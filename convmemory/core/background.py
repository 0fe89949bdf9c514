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
    os.nice(NICENESS)
    if AUTOGROUP.exists() and os.getsid(0) == os.getpid():
        with suppress(OSError):  # the kernel takes it only now and then, and not everywhere
            AUTOGROUP.write_text(str(NICENESS), encoding="ascii")
