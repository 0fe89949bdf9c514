"""`manage.py erasures`: print the ledger of erased users, or apply one to a database that was restored."""

import json
from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.core.program import COMMAND
from convmemory.ops.privacy.erasing import count_rows, erase_again, erased_before, read_ledger


class Command(ArchiveCommand):
    help = (
        "Print the ids of erased users and when they joined, a line of JSON each. Keep this output apart from backups: "
        "`--apply FILE` erases these users again after an older backup was restored (docs/operation.md)."
    )
    usages = ("", "--apply [--yes]")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--apply", type=Path, metavar="FILE", help="the output of this command")
        parser.add_argument("--yes", action="store_true", help="do not ask before users are erased")

    def handle(self, *args: Any, apply: Path | None, yes: bool, **options: Any) -> None:
        if apply is None:
            for account, joined_at in read_ledger():
                self.stdout.write(json.dumps({"account": account, "joined_at": joined_at.isoformat()}))
            return
        try:
            rows = [json.loads(line) for line in apply.read_text("utf-8").splitlines()]
            ledger = [(int(row["account"]), datetime.fromisoformat(row["joined_at"])) for row in rows]
        except OSError as error:
            raise CommandError(f"{apply} cannot be read: {error.strerror or error}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{apply} is not the output of `{COMMAND} erasures`. No user was erased.") from error
        if archives := erased_before(ledger):
            lines = [
                f"{archive}: {sum(count_rows(archive).values())} rows, will be deleted for good" for archive in archives
            ]
            self.confirm(lines, refusal="No user was erased.", is_agreed=yes)
        try:
            names = erase_again(ledger)
        except ConvMemoryError as error:
            raise CommandError(f"{error} Run the command again to finish.") from error
        self.stdout.write(f"Erased again: {', '.join(names) or 'none of them is in the database'}.")
