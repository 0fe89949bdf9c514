"""Backups at intervals go on after a failure, and wait until the newest is old enough; damaged ones are refused."""

import hashlib
import io
import os
import time
import zipfile
from pathlib import Path

import pytest

from convmemory.core.errors import InvalidInput
from convmemory.documents.storage import place_of
from convmemory.ops.privacy.backup import FOLDER, verify_files
from convmemory.ops.privacy.backup_places import Folder
from convmemory.ops.privacy.scheduled_backups import RETRY_S, back_up_for_ever, surplus_backups

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


def test_backups_but_the_newest_are_surplus(tmp_path: Path) -> None:
    for day in (2, 1, 3):
        (tmp_path / f"convmemory-2026010{day}T120000.zip").touch()
    (tmp_path / "notes.txt").touch()
    assert surplus_backups(Folder(tmp_path), keep=2) == ["convmemory-20260101T120000.zip"]
    assert surplus_backups(Folder(tmp_path), keep=3) == []


def test_backup_with_a_file_that_is_not_whole_is_refused() -> None:
    content = b"the whole guide"
    name = FOLDER + place_of(archive_id=1, digest=hashlib.sha256(content).hexdigest())
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr(name, content)
        verify_files(archive)
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr(name, content[:-1])
        with pytest.raises(InvalidInput, match="is not whole"):
            verify_files(archive)
