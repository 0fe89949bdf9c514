"""Timeouts of waiting tests: long, for slow and busy machines. A wait that ends early costs nothing."""

import time
from collections.abc import Callable
from pathlib import Path

ANSWER_S = 60.0
"""For an answer over HTTP, or for a page to show something."""

PROCESSES_S = 300.0
"""For a chain of processes that start one after the other, and their work."""


def wait_until(
    done: Callable[[], object],
    what: str = "it",
    timeout_s: float = PROCESSES_S,
    pause_s: float = 0.05,
    *,
    log: Path | None = None,
) -> None:
    """Return as soon as `done` says so; a timeout shows the log."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            shown = log.read_text(errors="replace") if log else ""
            raise AssertionError(f"no sign of {what} within {timeout_s:g} s\n{shown}")
        time.sleep(pause_s)
