"""`manage.py erasures`: print the ledger of erased users, or apply one to a database that was restored."""

import json
from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.ops.privacy.erasing import erase_again, read_ledger


class Command(ArchiveCommand):
    help = (
        "Print the ids of erased users and when they joined, a line of JSON each. Keep this output apart from backups: "
        "`--apply FILE` erases these users again after an older backup was restored."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--apply", type=Path, metavar="FILE", help="the output of this command")

    def handle(self, *args: Any, apply: Path | None, **options: Any) -> None:
        if apply is None:
            for account, joined_at in read_ledger():
                self.stdout.write(json.dumps({"account": account, "joined_at": joined_at.isoformat()}))
            return
        try:
            try:
                rows = [json.loads(line) for line in apply.read_text("utf-8").splitlines()]
                read = [(int(row["account"]), datetime.fromisoformat(row["joined_at"])) for row in rows]
            except OSError as error:
                raise CommandError(f"{apply} cannot be read: {error.strerror or error}.") from error
            except (ValueError, KeyError, TypeError) as error:
                raise CommandError(f"{apply} is not the output of `manage.py erasures`. No user was erased.") from error
            names = erase_again(read)
        except ConvMemoryError as error:
            raise CommandError(f"{error} Run the command again to finish.") from error
        self.stdout.write(f"Erased again: {', '.join(names) or 'none of them is in the database'}.")
