"""`manage.py create_user NAME [--admin]`: make an account that can sign in.

Asks for the password, or reads it from the first line of standard input if that is not a terminal.
"""

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.users import create_user
from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import config


class Command(ArchiveCommand):
    help = "Create a user who can sign in. The password is asked for, or read from standard input."
    usages = ("user [--admin]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the name of the new user")
        parser.add_argument("--admin", action="store_true", help="give access to the admin pages")

    def handle(self, *args: Any, user: str, admin: bool, **options: Any) -> None:
        if sys.stdin.isatty():
            password = getpass.getpass("Password: ")
            if getpass.getpass("Password, again: ") != password:
                raise CommandError("The two passwords differ. No user was created.")
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        create_user(username=user, password=password, is_admin=admin)
        self.stdout.write(f"Made the user {user!r}: they sign in on the page /login with this password.")
        if config.sso_only:
            self.stdout.write("But SSO_ONLY is set: the password is accepted only once the web server runs without it.")
