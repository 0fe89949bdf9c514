"""A command that finds the disk full says where to free space, whatever it was about to write."""

import errno
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from convmemory.core.commands import ArchiveCommand
from convmemory.ops.privacy.backup import BackupFailed, running


class Writing(ArchiveCommand):
    usages = ("",)
    error = OSError()

    def handle(self, *args: Any, **options: Any) -> None:
        raise self.error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_command_on_full_disk_names_the_mount_to_free(number: int, tmp_path: Path) -> None:
    Writing.error = OSError(number, "full", str(tmp_path / "var" / "up.json"))
    with pytest.raises(CommandError, match=r"The disk is full: free space on /\S* and run the command again\."):
        call_command(Writing())


def test_other_errors_of_files_stay_as_they_are(tmp_path: Path) -> None:
    Writing.error = PermissionError(errno.EACCES, "no", str(tmp_path))
    with pytest.raises(PermissionError):
        call_command(Writing())


def test_program_of_postgres_on_full_disk_is_named_without_its_output() -> None:
    command = ["sh", "-c", "echo 'ERROR: could not extend file base/1: No space left on device' >&2; exit 1"]
    with (
        pytest.raises(BackupFailed, match=r"^The disk of the database is full: .* Nothing was changed\.$"),
        running(command),
    ):
        pass
