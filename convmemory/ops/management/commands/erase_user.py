"""`manage.py erase_user USER`: delete all data of a user or of a space, and list the deleted rows."""

import json
from argparse import ArgumentParser
from typing import Any

from convmemory.core.commands import ArchiveCommand
from convmemory.core.program import COMMAND
from convmemory.ops.privacy.erasing import archive_to_erase, count_rows, erase


class Command(ArchiveCommand):
    help = "Delete a person or a space with all their data for good. Run it again to finish an interrupted run."
    usages = ("user [--yes] [--json]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help='the user to erase, or "space 7": the space with this number')
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print the receipt as JSON")

    def handle(self, *args: Any, user: str, yes: bool, as_json: bool, **options: Any) -> None:
        archive = archive_to_erase(user)
        rows = [f"{table:<40} {count:>10} rows" for table, count in count_rows(archive).items()]
        copying = "export_user" if archive.person else "export_conversations"
        warning = f"All of it will be deleted for good: {archive}. `{COMMAND} {copying}` makes a copy; backups keep it."
        self.confirm([*rows, warning], refusal="Nothing was deleted.", is_agreed=yes, answer=user)
        receipt = erase(archive=archive)
        if as_json:
            document = {"username": receipt.username, "deleted": receipt.deleted, "total": receipt.total}
            self.stdout.write(json.dumps(document, indent=1))
            return
        for table, count in sorted(receipt.deleted.items()):
            self.stdout.write(f"{table:<40} {count:>10} deleted")
        self.stdout.write(f"{receipt.username} is erased: {receipt.total} rows and files.")
