"""`manage.py erase_user USER`: delete all data of a user or of a space, and list the deleted rows."""

import json
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.ops.privacy.erasing import count_rows, erase_space, erase_user, space_to_erase, user_to_erase


class Command(ArchiveCommand):
    help = "Delete a person or a space with all their data for good. Run it again to finish an interrupted run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help='the user to erase, or "space 7": the space with this number')
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print the receipt as JSON")

    def handle(self, *args: Any, user: str, yes: bool, as_json: bool, **options: Any) -> None:
        try:
            space = space_to_erase(user)
            owner = space or user_to_erase(user)
            if not yes:
                for table, count in count_rows(owner).items():
                    self.stdout.write(f"{table:<40} {count:>10} rows")
                self.stdout.write(
                    "This cannot be undone; `manage.py export_user` keeps a copy. Backups are not changed."
                )
                try:
                    answer = input(f"Type {user} to delete all of it: ")
                except EOFError:
                    answer = ""
                if answer.strip() != user:
                    raise CommandError("Nothing was deleted.")
            receipt = erase_user(user=owner) if isinstance(owner, User) else erase_space(space=owner)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        if as_json:
            document = {"username": receipt.username, "deleted": receipt.deleted, "total": receipt.total}
            self.stdout.write(json.dumps(document, indent=1))
            return
        for table, count in sorted(receipt.deleted.items()):
            self.stdout.write(f"{table:<40} {count:>10} deleted")
        self.stdout.write(f"{receipt.username} is erased: {receipt.total} rows and files.")
