"""`manage.py setup_roles`: create the log-ins with which an external database itself separates owners."""

import secrets
from argparse import ArgumentParser
from typing import Any
from urllib.parse import quote

from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction

from convmemory.core.acting import Login
from convmemory.core.commands import ArchiveCommand
from convmemory.core.postgres.failures import UNMIGRATED
from convmemory.core.postgres.logins import ROLES
from convmemory.core.postgres.row_security import is_migrated, setup_script

SETTINGS = {Login.APP: "DATABASE_APP_URL", Login.MAINTENANCE: "DATABASE_MAINTENANCE_URL"}


class Command(ArchiveCommand):
    help = (
        "Print the statements that make the two roles for an external database, or run them with --apply, and the "
        "settings that name them; if these are set, with their passwords. The embedded database has its roles already "
        "(docs/adr/0066-row-level-security.md)."
    )
    usages = ("[--apply]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--apply", action="store_true", help="run them, which DATABASE_URL needs a superuser for")

    def handle(self, *args: Any, apply: bool, **options: Any) -> None:
        if connection.settings_dict["EMBEDDED_PATH"]:
            raise CommandError("The embedded database has its roles already; this is for a DATABASE_URL of your own.")
        if not is_migrated():
            raise CommandError(UNMIGRATED)
        named = {login: values.get("password") for login, values in connection.settings_dict["LOGINS"].items()}
        passwords = {login: named.get(login) or secrets.token_urlsafe(24) for login in ROLES}
        statements = list(setup_script(passwords))
        if apply:
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
            except DatabaseError as error:
                raise CommandError(
                    f"{str(error).strip()} Nothing was changed. Without --apply this prints what a superuser has to "
                    "run."
                ) from error
            self.stdout.write("The roles are made.")
        else:
            self.stdout.write("-- Run this in the database as a superuser, for example by psql -f:")
            self.stdout.write("".join(f"{statement.strip()};\n\n" for statement in statements))
        unset = [login for login in SETTINGS if not named.get(login)]
        if not unset:
            return
        self.stdout.write(("" if apply else "/* ") + "Set for every web process and worker:")
        values = connection.settings_dict
        target = f"{quote(values['HOST'], safe='')}:{values['PORT'] or 5432}/{quote(values['NAME'], safe='')}"
        for login in unset:
            password = quote(passwords[login], safe="")
            self.stdout.write(f"{SETTINGS[login]}=postgres://{ROLES[login]}:{password}@{target}")
        if not apply:
            self.stdout.write("*/")
