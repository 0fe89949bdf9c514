"""`manage.py backup`: write the database and stored files to one file, once or at intervals."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.ops.privacy.backup import back_up
from convmemory.ops.privacy.backup_places import place_named
from convmemory.ops.privacy.scheduled_backups import back_up_for_ever, back_up_to


class Command(ArchiveCommand):
    help = (
        "Write a backup of the embedded database and of stored files into one file; convmemory may run meanwhile. "
        "`--to FOLDER` names the file, reads it again, and deletes the oldest."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("path", nargs="?", type=Path, metavar="PATH", help="the file to write; it must not exist")
        place.add_argument("--to", metavar="FOLDER", help="the folder of numbered backups, or s3://BUCKET/PREFIX")
        parser.add_argument("--keep", type=int, default=14, metavar="N", help="with --to: how many are kept (14)")
        parser.add_argument("--every", type=float, metavar="HOURS", help="with --to: go on, one backup every HOURS")

    def handle(
        self, *args: Any, path: Path | None, to: str | None, keep: int, every: float | None, **options: Any
    ) -> None:
        if keep < 1 or (every is not None and every <= 0):
            raise CommandError("--keep is at least 1, --every more than 0 hours.")
        try:
            if to and every:
                back_up_for_ever(place_named(to), every_s=every * 3_600, keep=keep, tell=self._say)
            elif to:
                self._say(f"Backup written and verified: {back_up_to(place_named(to), keep=keep)}")
            elif path:
                report = back_up(path=path)
                self._say(f"{path}: {report.rows} rows, {report.files} files, {report.size / 1024**2:.1f} MB.")
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
