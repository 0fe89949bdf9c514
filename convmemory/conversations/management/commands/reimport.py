"""`manage.py reimport [--user U]`: read kept uploads again, after an importer has been repaired."""

from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import archive_named
from convmemory.conversations.importing.models import KeptUpload
from convmemory.conversations.importing.runner import ImportReport
from convmemory.conversations.importing.syncing import archives_with_uploads, reimport
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Read kept uploads again, so that conversations gain what this version reads better."
    usages = ("[--user]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help='only uploads of this user, or of "space 7" (default: of all)')

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = [archive_named(options["user"]).pk] if options["user"] else archives_with_uploads()
        for number in numbers:
            with acting_as(Caller.for_archive(number)) as caller:
                reimport(caller=caller, on_report=self._print)
        if not numbers:
            self.stdout.write("No upload is kept.")

    def _print(self, upload: KeptUpload, report: ImportReport) -> None:
        total = report.total
        self.stdout.write(
            f"upload {upload.pk} of {upload.created_at:%Y-%m-%d}: {total('conversations')} conversations, "
            f"{total('added')} messages new, {total('updated')} updated, {total('unchanged')} unchanged"
        )
        for file in report.files:
            for line in (*file.errors, *file.warnings):
                self.stdout.write(f"  {file.path}: {line}")
