"""`manage.py backup`: write the database and stored files to one file, once or at intervals."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import close_old_connections

from convmemory.accounts.auditing import Action, record
from convmemory.core.commands import ArchiveCommand
from convmemory.core.postgres.failures import missing_migrations
from convmemory.ops.privacy.backup import back_up
from convmemory.ops.privacy.backup_places import BackupPlace, place_named
from convmemory.ops.privacy.scheduled_backups import back_up_for_ever, back_up_to, surplus_backups


class Command(ArchiveCommand):
    help = (
        "Write a backup of the embedded database and of stored files into one file; convmemory may run meanwhile. "
        "`--to FOLDER` names the file, reads it again, and deletes the oldest (docs/operation.md)."
    )
    usages = ("path", "--to [--keep] [--yes]", "--to [--keep] --every --yes")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="the file to write; it must not exist")
        parser.add_argument("--to", metavar="FOLDER", help="the folder of numbered backups, or s3://BUCKET/PREFIX")
        parser.add_argument("--keep", type=int, default=14, metavar="N", help="how many are kept (default: 14)")
        parser.add_argument("--every", type=float, metavar="HOURS", help="go on, one backup every HOURS")
        parser.add_argument("--yes", action="store_true", help="do not ask before older backups are deleted")

    def handle(
        self, *args: Any, path: Path | None, to: str, keep: int, every: float | None, yes: bool, **options: Any
    ) -> None:
        if keep < 1 or (every is not None and every <= 0):
            raise CommandError("--keep is at least 1, --every more than 0 hours.")
        if path:
            report = back_up(path=path)
            self._say(f"{path}: {report.rows} rows, {report.files} files, {report.size / 1024**2:.1f} MB.")
            _record()
            return
        folder = place_named(to)
        back_up_there = partial(self._back_up_to, folder, keep=keep, yes=yes)
        if every:
            back_up_for_ever(folder, every_s=every * 3_600, back_up=back_up_there, tell=self._say)
        back_up_there()

    def _back_up_to(self, folder: BackupPlace, *, keep: int, yes: bool) -> None:
        self._say(f"Backup written and verified: {back_up_to(folder)}")
        _record()
        if surplus := surplus_backups(folder, keep=keep):
            lines = [f"Will be deleted: {folder}/{name}" for name in surplus]
            self.confirm(lines, refusal="The backup is there; no older one was deleted.", is_agreed=yes)
        for name in surplus:
            folder.remove(name)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _record() -> None:
    close_old_connections()  # hours may lie between two backups, and a restart of the database
    if not missing_migrations():  # a database of an earlier version may have no audit log, or another one
        record(Action.EXPORTED, what="backup", person_id=None)
