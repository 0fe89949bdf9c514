"""Child processes are ended when they work without progress, and not while they get on."""

from pathlib import Path

import pytest

from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import ChildLimits, Ending, plain_environment, touched_at


def run(file: Path, *, steps: int) -> Ending:
    file.touch()
    return child_process.run_child(
        "tests.support.stalling_child",
        [str(file), str(steps)],
        limits=ChildLimits(memory_mb=256, timeout_s=300, stall_s=1),
        environment=plain_environment(),
        progress=lambda: touched_at(file),
    )


@pytest.fixture(autouse=True)
def _short_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "HEARTBEAT_S", 0.1)


@pytest.mark.django_db(transaction=True)
def test_child_without_progress_is_ended(tmp_path: Path) -> None:
    assert run(tmp_path / "progress", steps=0) is Ending.STALLED


@pytest.mark.django_db(transaction=True)
def test_child_with_progress_runs_for_longer_than_it_may_stall(tmp_path: Path) -> None:
    assert run(tmp_path / "progress", steps=8) is Ending.DONE
