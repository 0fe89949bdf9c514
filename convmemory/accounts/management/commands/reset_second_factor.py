"""`manage.py reset_second_factor USER`: let a user who has lost the app and the passkeys sign in by the password."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import NotFound
from convmemory.sign_in.second_factor import remove_everything


class Command(ArchiveCommand):
    help = "Remove a user's authenticator app, passkeys and recovery codes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user who lost the second factor")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        try:
            person = user_named(user)
        except NotFound as error:
            raise CommandError(str(error)) from error
        if not remove_everything(person):
            raise CommandError(f"{user!r} has no second factor.")
        record(Action.DELETED, what="second factor", person_id=None, about_id=person.pk)
        warn(person, Change.FACTORS_REMOVED)
        self.stdout.write(f"The second factor of {user!r} is removed: the password alone signs them in.")
