"""`manage.py move_owner USER --to N`: move one owner with all rows into another group."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import ConvMemoryError
from convmemory.ops.groups.moving import move_owner


class Command(ArchiveCommand):
    help = "Move one person into another group of owners. Stop everything else first; it is done in one transaction."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", help="the user's name")
        parser.add_argument("--to", type=int, required=True, metavar="N", help="the number of the group")

    def handle(self, *args: Any, user: str, to: int, **options: Any) -> None:
        try:
            moved = move_owner(username=user, to=to)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{user} is in group {to}: {moved:,} rows were moved.")
