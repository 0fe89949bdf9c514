"""`manage.py hide_keys [--user U]`: hide the keys in messages stored before keys were hidden on import."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.models import Archive
from convmemory.conversations.management.commands.import_conversations import owner_named
from convmemory.conversations.messages.hiding import hide_stored_keys
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import SwitchedOff


class Command(ArchiveCommand):
    help = "Hide API keys, tokens and passwords in stored conversations; their owner can still reveal them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="only conversations of this user (default: everybody's)")

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = (
            [owner_named(options["user"]).pk]
            if options["user"]
            else Archive.objects.order_by("pk").values_list("pk", flat=True)
        )
        for number in numbers:
            try:
                with acting_as(Caller.for_archive(number)) as caller:
                    report = hide_stored_keys(caller=caller)
            except SwitchedOff as error:
                raise CommandError(str(error)) from error
            self.stdout.write(
                f"user {number}: keys hidden in {report.messages} messages, {report.others} titles and events of "
                f"{report.conversations} conversations"
                + (f"; {report.busy} are being answered: run it again" if report.busy else "")
            )
