"""`manage.py add_documents PATH... --user U`: add files to a user's library and process them at once."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.users import user_named
from convmemory.core.acting import acting_for
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.documents import library
from convmemory.documents.processing import process_document


class Command(ArchiveCommand):
    help = "Add documents to a user's library: files, or folders with everything in them."
    usages = ("paths --user",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a file, or a folder of documents")
        parser.add_argument("--user", required=True, help="the user who will own the documents")

    def handle(self, *args: Any, **options: Any) -> None:
        failed = 0
        owner = user_named(options["user"])
        with acting_for(owner.pk):
            for path in options["paths"]:
                files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
                failed += sum(not self._add(Caller.of(owner), file) for file in files)
        if failed:
            raise CommandError(f"{failed} could not be read; the lines above say why.")

    def _add(self, caller: Caller, path: Path) -> bool:
        """Add and read one file, in a child of this process; return whether it is in the library now."""
        try:
            library.require_upload(caller=caller, size=path.stat().st_size, replaces=None)
            with path.open("rb") as file:
                stored = library.store_file(archive_id=caller.archive_id, file=file, name=path.name)
            added = library.add_upload(caller=caller, stored=stored, replaces=None)
            what = f"document {added.document.pk}"
            record(Action.MADE, what=what, person_id=caller.person_id, about_id=caller.archive_id)
        except (ConvMemoryError, OSError) as error:
            self.stderr.write(f"{path}: {getattr(error, 'strerror', '') or error}")
            return False
        status = process_document(archive_id=added.document.archive_id, document_id=added.document.pk)
        added.document.refresh_from_db()
        outcome = f"{added.document.section_count} sections" if status == "ready" else added.document.error
        self.stdout.write(f"{path}: document {added.document.pk}, {status}, {outcome}")
        for note in added.document.notes:
            self.stdout.write(f"  {note}")
        return status == "ready"
