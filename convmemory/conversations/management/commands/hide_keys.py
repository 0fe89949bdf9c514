"""`manage.py hide_keys [--user U]`: hide the keys in messages stored before keys were hidden on import."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from convmemory.conversations.management.commands.import_conversations import owner_named
from convmemory.conversations.messages.hiding import hide_stored_keys
from convmemory.core.acting import acting_for
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import SwitchedOff


class Command(ArchiveCommand):
    help = "Hide API keys, tokens and passwords in stored conversations; their owner can still reveal them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="only conversations of this user (default: everybody's)")

    def handle(self, *args: Any, **options: Any) -> None:
        owners = [owner_named(options["user"])] if options["user"] else list(User.objects.order_by("pk"))
        for owner in owners:
            try:
                with acting_for(owner.pk):
                    report = hide_stored_keys(owner=owner)
            except SwitchedOff as error:
                raise CommandError(str(error)) from error
            self.stdout.write(
                f"user {owner.pk}: keys hidden in {report.messages} messages, {report.others} titles and events of "
                f"{report.conversations} conversations"
                + (f"; {report.busy} are being answered: run it again" if report.busy else "")
            )
