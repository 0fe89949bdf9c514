"""Backups at intervals go on after a failure, and wait until the newest is old enough."""

import os
import time
from pathlib import Path

import pytest

from convmemory.core.errors import InvalidInput
from convmemory.ops.privacy.backup_places import Folder
from convmemory.ops.privacy.scheduled_backups import RETRY_S, back_up_for_ever

HOUR_S = 3_600.0


class Ended(Exception):
    """Ends a loop that has no end of its own."""


def test_backup_that_failed_is_tried_again_and_next_one_waits_for_its_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = [InvalidInput("The file is damaged."), OSError("No space left.")]
    said: list[str] = []
    slept: list[float] = []

    def write() -> None:
        if failures:
            raise failures.pop(0)
        (tmp_path / f"convmemory-{len(said)}.zip").touch()
        said.append("Backup written and verified")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 5:
            raise Ended
        if seconds > RETRY_S:  # an hour later
            for path in tmp_path.iterdir():
                os.utime(path, (time.time() - HOUR_S, time.time() - HOUR_S))

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(Ended):
        back_up_for_ever(Folder(tmp_path), every_s=HOUR_S, back_up=write, tell=said.append)
    assert [line.split(":")[0] for line in said] == [
        "No backup", "No backup", "Backup written and verified", "Backup written and verified"
    ]  # fmt: skip
    assert [round(seconds, -1) for seconds in slept] == [RETRY_S, RETRY_S, 0, HOUR_S, 0]
