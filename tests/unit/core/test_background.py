"""Background processes lower their own priority."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from convmemory.core.processes.child_limits import AUTOGROUP, NICENESS, push_back

STEP_BACK = (
    "import os; from convmemory.core.processes.child_limits import AUTOGROUP, step_back; step_back(); "
    "print(os.nice(0), AUTOGROUP.read_text() if AUTOGROUP.exists() else '')"
)


def niceness(*, leads_session: bool) -> list[str]:
    """Of a process that stepped back, and what Linux says of its session."""
    completed = subprocess.run(
        [sys.executable, "-c", STEP_BACK], capture_output=True, text=True, check=True, start_new_session=leads_session
    )
    return completed.stdout.split()


def test_background_process_is_niced() -> None:
    assert int(niceness(leads_session=False)[0]) >= NICENESS


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="no autogroups here")
def test_only_own_session_changes_its_autogroup_niceness() -> None:
    assert niceness(leads_session=True)[-2:] == ["nice", str(NICENESS)]
    assert niceness(leads_session=False)[-2:] != ["nice", str(NICENESS)]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="no autogroups here")
def test_another_process_can_be_pushed_back_with_its_session() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:
        push_back(process.pid)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == NICENESS
        assert Path(f"/proc/{process.pid}/autogroup").read_text().split()[-1] == str(NICENESS)
        process.kill()


def test_pushing_back_process_that_is_gone_does_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    push_back(process.pid)
