"""Checks convmemory's requirements on a PostgreSQL server: system checks run by `migrate` and `up`.

Ids: convmemory.E001 not reachable, E002 too old, E003 pgvector missing, E004 pgvector too old.
"""

import re
from typing import Any

from django.core.checks import CheckMessage, Error
from django.db.backends.base.validation import BaseDatabaseValidation
from django.db.utils import OperationalError

from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.sql import load_sql

MIN_SERVER = 15
MIN_VECTOR = (0, 8)
_NUMBER = re.compile(r"\d+")


class DatabaseValidation(BaseDatabaseValidation):
    """Checks the server's version and its pgvector."""

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(load_sql("convmemory.core", "server_facts"))
                row = cursor.fetchone()
        except (DatabaseUnavailable, OperationalError) as error:
            return [*super().check(**kwargs), Error(str(error), id="convmemory.E001")]
        assert row is not None
        return [*super().check(**kwargs), *server_problems(*row)]


def server_problems(server: int, installed: str | None, available: str | None) -> list[CheckMessage]:
    """Return the problems of a server of that version.

    `installed` and `available` are the versions of pgvector in the database and on the server.
    """
    problems: list[CheckMessage] = []
    if server < MIN_SERVER:
        hint = "Use a newer server, or leave DATABASE_URL empty for the embedded PostgreSQL."
        problems.append(
            Error(f"PostgreSQL {server} is too old: {MIN_SERVER} or newer is needed.", hint, id="convmemory.E002")
        )
    if not (installed or available):
        hint = "Install pgvector on the database server (package postgresql-NN-pgvector, image pgvector/pgvector)."
        problems.append(Error("The extension pgvector is missing on the database server.", hint, id="convmemory.E003"))
    elif tuple(int(number) for number in _NUMBER.findall(installed or available or "")) < MIN_VECTOR:
        hint = "Install a newer pgvector, then run: ALTER EXTENSION vector UPDATE"
        problems.append(
            Error(f"pgvector {installed or available} is too old: 0.8 is needed.", hint, id="convmemory.E004")
        )
    return problems
