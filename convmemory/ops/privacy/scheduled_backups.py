"""Backups at intervals: each is written to a folder, read again completely, and takes the place of the oldest."""

import time
from collections.abc import Callable
from pathlib import Path

from django.utils import timezone

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.files.private_files import DRAFT_SUFFIX
from convmemory.ops.privacy.backup import back_up, verify

PATTERN = "convmemory-*.zip"
ABANDONED_S = 86_400.0
"""A draft that was not written to for so long is not that of a backup under way."""
RETRY_S = 600.0
"""A full disk or a missing folder is rarely repaired within seconds."""


def newest_backup(folder: Path) -> float | None:
    """Return when the newest backup in the folder was written, in seconds since the epoch; None if there is none."""
    return max((path.stat().st_mtime for path in folder.glob(PATTERN)), default=None)


def back_up_to(folder: Path, *, keep: int) -> Path:
    """Write a verified backup and delete all but the newest `keep`; return its path.

    A backup that cannot be read completely is deleted, and no older one with it. Drafts that killed runs left are
    deleted after a day. Raises: InvalidInput, BackupFailed.
    """
    path = folder / f"convmemory-{timezone.now():%Y%m%dT%H%M%S}.zip"
    back_up(path=path)
    try:
        verify(path)
    except InvalidInput:
        path.unlink()
        raise
    for old in sorted(folder.glob(PATTERN))[:-keep]:
        old.unlink()
    for draft in folder.glob(f"convmemory-*{DRAFT_SUFFIX}"):
        if time.time() - draft.stat().st_mtime > ABANDONED_S:
            draft.unlink()
    return path


def back_up_for_ever(folder: Path, *, every_s: float, keep: int, tell: Callable[[str], None]) -> None:
    """Write a backup whenever the newest is `every_s` seconds old; report failures to `tell` and try again."""
    while True:
        newest = newest_backup(folder)
        due_s = 0.0 if newest is None else newest + every_s - time.time()
        if due_s <= 0:
            try:
                tell(f"Backup written and verified: {back_up_to(folder, keep=keep)}")
            except (ConvMemoryError, OSError) as error:
                tell(f"No backup: {error} Next try in {RETRY_S / 60:.0f} minutes.")
                due_s = RETRY_S
        time.sleep(max(1.0, due_s))
