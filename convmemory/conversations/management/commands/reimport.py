"""`manage.py reimport [--user U]`: read kept uploads again, after an importer has been repaired."""

from argparse import ArgumentParser
from typing import Any

from convmemory.conversations.importing.models import KeptUpload
from convmemory.conversations.importing.runner import ImportReport
from convmemory.conversations.importing.syncing import owners_of_uploads, reimport
from convmemory.conversations.management.commands.import_conversations import owner_named
from convmemory.core.acting import acting_for
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Read kept uploads again, so that conversations gain what this version reads better."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="only uploads of this user (default: everybody's)")

    def handle(self, *args: Any, **options: Any) -> None:
        owners = [owner_named(options["user"])] if options["user"] else owners_of_uploads()
        for owner in owners:
            with acting_for(owner.pk):
                reimport(owner=owner, on_report=self._print)
        if not owners:
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
