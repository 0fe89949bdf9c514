"""Backups at intervals: each is written to a folder or bucket, read again completely, and replaces the oldest."""

import time
from collections.abc import Callable

from django.utils import timezone

from convmemory.core.errors import ConvMemoryError
from convmemory.ops.privacy.backup import back_up_into, embedded_target, verify
from convmemory.ops.privacy.backup_places import PREFIX, SUFFIX, BackupPlace

RETRY_S = 600.0
"""A full disk or a missing folder is rarely repaired within seconds."""


def newest_backup(folder: BackupPlace) -> float | None:
    """Return when the newest backup was written, in seconds since the epoch; None if there is none.

    Raises: InvalidInput, BackupFailed if a bucket cannot be listed.
    """
    return max(folder.backups().values(), default=None)


def back_up_to(folder: BackupPlace) -> str:
    """Write a verified backup; return its address. Drafts that killed runs left are deleted after a day.

    A backup that cannot be read completely is deleted. Raises: InvalidInput, BackupFailed.
    """
    target = embedded_target()
    while (name := f"{PREFIX}{timezone.now():%Y%m%dT%H%M%S}{SUFFIX}") in folder.backups():
        time.sleep(0.1)  # there is one of this second
    address = f"{folder}/{name}"
    with folder.new_archive(name) as archive:
        back_up_into(archive, target)
    try:
        with folder.opened(name) as file:
            verify(file, name=address)
    except ConvMemoryError:
        folder.remove(name)
        raise
    folder.drop_drafts()
    return address


def surplus_backups(folder: BackupPlace, *, keep: int) -> list[str]:
    """Return the names of all backups but the newest `keep`. Raises: InvalidInput, BackupFailed."""
    return sorted(folder.backups())[:-keep]


def back_up_for_ever(
    folder: BackupPlace, *, every_s: float, back_up: Callable[[], None], tell: Callable[[str], None]
) -> None:
    """Call `back_up` whenever the newest backup is `every_s` seconds old; report failures to `tell` and try again."""
    while True:
        try:
            newest = newest_backup(folder)
            due_s = 0.0 if newest is None else newest + every_s - time.time()
            if due_s <= 0:
                back_up()
        except (ConvMemoryError, OSError) as error:
            tell(f"No backup: {error} Next try in {RETRY_S / 60:.0f} minutes.")
            due_s = RETRY_S
        time.sleep(max(1.0, due_s))
