"""`manage.py create_api_key USER`: print a new key, alone on the last line."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from convmemory.accounts.keys import create_key
from convmemory.accounts.users import SIGN_IN_REMEDY, create_user, user_named
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Create an API key for a user, who can also be created. It is printed only once, alone on the last line."
    usages = (
        "user [--create] [--name] [--days] [--read-only]",
        "user [--create] [--name] [--days] --all-spaces [--read-only | --writes-spaces]",
        "user [--create] [--name] [--days] --space [--read-only | --writes-spaces]",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user to whom the key belongs")
        parser.add_argument("--create", action="store_true", help="create the user if it does not exist")
        parser.add_argument("--name", default="", help="what the key is for")
        parser.add_argument("--days", type=int, default=None, help="number of days until it expires (default: never)")
        parser.add_argument(
            "--all-spaces", action="store_true", help="also read all spaces of the user, and later ones"
        )
        parser.add_argument(
            "--space", type=int, action="append", default=[], metavar="NUMBER", help="also read this space; repeatable"
        )
        parser.add_argument(
            "--writes-spaces", action="store_true", help="also write to these spaces, as far as the user's role allows"
        )
        parser.add_argument("--read-only", action="store_true", help="allow only searching and reading")

    def handle(self, *args: Any, user: str, create: bool, name: str, **options: Any) -> None:
        user = User.normalize_username(user)
        with transaction.atomic():  # a failure to create the key must not leave a new user
            if create and not User.objects.filter(username=user).exists():
                create_user(username=user, password=None)
                self.stdout.write(f"Made the user {user!r}.")
            person = user_named(user)
            key = create_key(
                person=person,
                name=name,
                days=options["days"],
                read_only=options["read_only"],
                space_ids=None if options["all_spaces"] else options["space"],
                writes_spaces=options["writes_spaces"],
            )
        if create and not person.has_usable_password():
            how = SIGN_IN_REMEDY.format(name=user)
            self.stdout.write(f"{user!r} has no password and cannot sign in on the pages: {how}.")
        self.stdout.write("The key is shown only now:")
        self.stdout.write(key)
