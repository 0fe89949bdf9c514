"""`manage.py restore PATH`: replace the embedded database and the files of documents with a backup."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.core.files.work_folders import work_folder
from convmemory.ops.privacy.backup import BackupReport
from convmemory.ops.privacy.backup_places import local_copy
from convmemory.ops.privacy.erasing import erase_again, read_ledger
from convmemory.ops.privacy.restoring import check_restore, note_restore, restore


class Command(ArchiveCommand):
    help = (
        "Replace the embedded database and the files of documents by a backup; its checksums are verified first. "
        " Stop convmemory before; with --check it may run, and nothing is replaced."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", help="a file written by `manage.py backup`, or its s3:// address")
        does = parser.add_mutually_exclusive_group()
        does.add_argument("--force", action="store_true", help="replace the database even if it has accounts")
        does.add_argument(
            "--check", action="store_true", help="restore into a database that is dropped again; nothing is replaced"
        )

    def handle(self, *args: Any, path: str, force: bool, check: bool, **options: Any) -> None:
        try:
            with work_folder("restore") as folder, local_copy(path, folder) as file:
                report = check_restore(path=file) if check else self._restore(file, force=force)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        done = "Nothing was replaced: restored on trial" if check else "Restored"
        self.stdout.write(f"{done} {report.rows} rows and {report.files} files from {path}.")
        if report.has_other_key:
            self.stderr.write(
                "The backup was written with another SECRET_KEY. Kept uploads, hidden keys, authenticator apps and the "
                "keys of endpoints cannot be read with this one: set SECRET_KEY, or the file secret_key in the data "
                "folder, to that of the backup, and start again."
            )

    def _restore(self, path: Path, *, force: bool) -> BackupReport:
        erased = read_ledger()
        report = restore(path=path, erased=erased, force=force)
        call_command("migrate", interactive=False, verbosity=0)  # a backup of an older version
        note_restore()
        if names := erase_again(erased):
            self.stdout.write(f"Erased again: {', '.join(names)}.")
        return report
