"""`manage.py hide_keys [--user U]`: hide the keys in messages stored before keys were hidden on import."""

from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.models import Archive
from convmemory.accounts.users import archive_named
from convmemory.conversations.messages.hiding import hide_stored_keys
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = (
        "Hide API keys, tokens and passwords in conversations stored with HIDE_KEYS=0 or by an older version; their "
        "owner can still reveal them."
    )
    usages = ("[--user]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help='only conversations of this user, or of "space 7" (default: of all)')

    def handle(self, *args: Any, **options: Any) -> None:
        archives = Archive.objects.select_related("person").order_by("pk")
        for archive in [archive_named(options["user"])] if options["user"] else archives:
            with acting_as(Caller.for_archive(archive.pk)) as caller:
                report = hide_stored_keys(caller=caller)
                if report.messages or report.others:
                    record(Action.CHANGED, what="hidden keys", person_id=None, about_id=archive.pk)
            self.stdout.write(
                f"{archive}: keys hidden in {report.messages} messages, {report.others} titles and events of "
                f"{report.conversations} conversations"
                + (f"; {report.busy} are being answered: run it again" if report.busy else "")
            )
