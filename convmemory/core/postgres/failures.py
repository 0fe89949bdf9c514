"""Failures of a connection to the database, as errors that say what to do."""

from typing import Any

import psycopg
from django.db import DatabaseError
from django.db.utils import OperationalError

from convmemory.core.errors import DatabaseUnavailable


class DatabaseUnreachable(DatabaseUnavailable, OperationalError):
    """The database did not accept a connection; the message says why and what to do."""


class ChangedInTransaction(DatabaseError):
    """The identity changed inside a transaction, whose connection is logged in with the identity it began with."""


def unreachable_message(conn_params: dict[str, Any], reason: psycopg.OperationalError) -> str:
    place = f"{conn_params.get('host', 'localhost')}:{conn_params.get('port', 5432)}/{conn_params.get('dbname', '')}"
    return (
        f"The database at {place} does not accept a connection: {str(reason).partition(chr(10))[0]}. "
        "Check DATABASE_URL (or leave it empty for the embedded PostgreSQL) and that the server runs."
    )
