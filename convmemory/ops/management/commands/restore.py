"""`manage.py restore PATH`: replace the embedded database and the files of documents with a backup."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management import call_command

from convmemory.accounts.auditing import Action, record
from convmemory.core.commands import ArchiveCommand
from convmemory.core.files.work_folders import work_folder
from convmemory.core.program import COMMAND
from convmemory.ops.privacy.backup import BackupReport
from convmemory.ops.privacy.backup_places import local_copy
from convmemory.ops.privacy.erasing import erase_again, read_ledger
from convmemory.ops.privacy.restoring import check_restore, note_restore, restore


class Command(ArchiveCommand):
    help = (
        "Replace the embedded database and the files of documents by a backup; its checksums are verified first. "
        "Stop convmemory before; with `--check` it may run, and nothing is replaced."
    )
    usages = ("path [--yes | --check]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", help=f"a file written by `{COMMAND} backup`, or its s3:// address")
        parser.add_argument("--yes", action="store_true", help="do not ask before a database with accounts is replaced")
        parser.add_argument(
            "--check", action="store_true", help="restore into a database that is dropped again; nothing is replaced"
        )

    def handle(self, *args: Any, path: str, yes: bool, check: bool, **options: Any) -> None:
        with work_folder("restore") as folder, local_copy(path, folder) as file:
            report = check_restore(path=file) if check else self._restore(file, yes=yes)
        done = "Nothing was replaced: restored on trial" if check else "Restored"
        self.stdout.write(f"{done} {report.rows} rows and {report.files} files from {path}.")
        if report.has_other_key:
            self.stderr.write(
                "The backup was written with another SECRET_KEY. Kept uploads, hidden keys, authenticator apps and the "
                "keys of endpoints cannot be read with this one: set SECRET_KEY, or the file secret_key in the data "
                "folder, to that of the backup, and start again."
            )

    def _restore(self, path: Path, *, yes: bool) -> BackupReport:
        def confirm(counts: Mapping[str, int]) -> None:
            lines = [f"{table:<40} {count:>10} rows" for table, count in counts.items()]
            warning = f"All of it, and the files, will be replaced by the backup; `{COMMAND} backup` keeps a copy."
            self.confirm([*lines, warning], refusal="Nothing was replaced.", is_agreed=yes)

        erased = read_ledger()
        report = restore(path=path, erased=erased, confirm=confirm)
        call_command("migrate", interactive=False, verbosity=0)  # a backup of an older version
        note_restore()
        record(Action.RESTORED, what="backup", person_id=None)
        if names := erase_again(erased):
            self.stdout.write(f"Erased again: {', '.join(names)}.")
        return report
