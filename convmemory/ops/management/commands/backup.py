"""`manage.py backup PATH`: write the embedded database, or a group of owners, and documents' files to one file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from convmemory.core.errors import ConvMemoryError
from convmemory.ops.privacy.backup import back_up
from convmemory.ops.privacy.group_backup import back_up_group


class Command(BaseCommand):
    help = (
        "Write a backup of the embedded database and of documents' files into one file; convmemory may run meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="the file to write; it must not exist")
        parser.add_argument("--group", type=int, metavar="N", help="only this group of owners, also of another server")

    def handle(self, *args: Any, path: Path, group: int | None, **options: Any) -> None:
        try:
            report = back_up(path=path) if group is None else back_up_group(group=group, path=path)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{path}: {report.rows} rows, {report.files} files, {report.size / 1024**2:.1f} MB.")
