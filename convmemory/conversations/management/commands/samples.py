"""`manage.py samples --user U [--remove]`: load the sample conversations into an archive, or take them out."""

from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import archive_named
from convmemory.conversations.samples_loader import load_samples, remove_samples, stored_samples
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Load the sample conversations into an archive, or put those that are in it into its trash."
    usages = ("--user", "--user --remove [--yes]")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help='the archive of this user, or "space 7"')
        parser.add_argument("--remove", action="store_true", help="put the sample conversations into the trash")
        parser.add_argument("--yes", action="store_true", help="do not ask before they go into the trash")

    def handle(self, *args: Any, user: str, remove: bool, yes: bool, **options: Any) -> None:
        archive = archive_named(user)
        with acting_as(Caller.for_archive(archive.pk)) as caller:
            if not remove:
                count = load_samples(caller)
                record(Action.CHANGED, what="sample conversations", person_id=None, about_id=archive.pk)
                self.stdout.write(f"{count} sample conversations are in the archive {archive}.")
                return
            if rows := stored_samples(caller):
                lines = [f"Will be put into the trash: {number} {title}" for number, title in rows]
                self.confirm(lines, refusal="Nothing was removed.", is_agreed=yes)
                remove_samples(caller)
                record(Action.TRASHED, what="sample conversations", person_id=None, about_id=archive.pk)
            self.stdout.write(f"{len(rows)} sample conversations were put into the trash of {archive}.")
