"""The facts about a run: the measured commit, and the machine without its name."""

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from typing import Any

import psutil

from benchmarks.places import CHANGED, ROOT, say

GIB = 2**30
QUIET_LOAD = 0.5  # the load average of the last minute before a run
PATIENCE_S = 240.0


def run_facts() -> dict[str, Any]:
    """Return date, commit, cores, memory, and the load before the run, which is near 0 on a quiet machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def wait_until_quiet() -> None:
    """Wait until the load of earlier work has faded.

    A machine that stays busy is measured all the same; its figures say so.
    """
    given_up_at = time.monotonic() + PATIENCE_S
    if os.getloadavg()[0] > QUIET_LOAD:
        say(f"Waiting until the machine is quiet, {PATIENCE_S:g} seconds at most")
    while os.getloadavg()[0] > QUIET_LOAD and time.monotonic() < given_up_at:
        time.sleep(2)


def commit() -> str:
    """Return the short hash of the checked-out commit, marked if a tracked file differs from it."""
    shown = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return f"{shown}{CHANGED}" if changed else shown


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return found.stdout.strip() or "" if found.returncode == 0 else "unknown"
