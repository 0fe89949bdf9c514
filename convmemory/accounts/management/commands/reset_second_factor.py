"""`manage.py reset_second_factor USER`: let a user who has lost the app and the passkeys sign in by the password."""

from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand
from convmemory.core.errors import NotFound
from convmemory.sign_in.second_factor import count_factors, remove_everything


class Command(ArchiveCommand):
    help = "Remove a user's authenticator app, passkeys and recovery codes."
    usages = ("user [--yes]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user who lost the second factor")
        parser.add_argument("--yes", action="store_true", help="do not ask before it is removed")

    def handle(self, *args: Any, user: str, yes: bool, **options: Any) -> None:
        person = user_named(user)
        counts = {name: count for name, count in count_factors(person).items() if count}
        if not counts:
            raise NotFound(f"{user!r} has no second factor.")
        line = f"Will be removed from {user!r}: {', '.join(f'{count} {name}' for name, count in counts.items())}."
        self.confirm([line], refusal="Nothing was removed.", is_agreed=yes)
        remove_everything(person)
        record(Action.DELETED, what="second factor", person_id=None, about_id=person.pk)
        warn(person, Change.FACTORS_REMOVED)
        self.stdout.write(f"The second factor of {user!r} is removed: the password alone signs them in.")
