"""What can go wrong with a connection or a commit, as errors that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import IntegrityError, InterfaceError, InternalError, OperationalError
from psycopg.errors import Diagnostic

from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.program import COMMAND

VIOLATION_CLASS = "23"
"""The first digits of the codes of constraint violations."""

PASSING_CODES = frozenset({"0A000", "25006", "25P03", "25P04"})
"""SQLSTATEs of other errors that pass: a migration made a connection's plans outdated, the server became a standby, or
it ended a transaction that took too long."""

UNMIGRATED = f"The database lacks tables of this version: run `{COMMAND} migrate`."


@contextmanager
def named_as_they_are(link: psycopg.Connection) -> Iterator[None]:
    """Convert a commit failure in the block to IntegrityError if a node reported a violated constraint."""
    violations: list[str] = []

    def note(diagnostic: Diagnostic) -> None:
        if (diagnostic.sqlstate or "").startswith(VIOLATION_CLASS):
            violations.append(diagnostic.message_primary or "")

    link.add_notice_handler(note)
    try:
        yield
    except InternalError as error:
        if violations:
            raise IntegrityError(violations[0]) from error
        raise
    finally:
        link.remove_notice_handler(note)


def is_passing(error: BaseException) -> bool:
    """Return whether a later try may succeed: the connection was lost, a timeout ran out, the server is a standby."""
    if isinstance(error, (DatabaseUnavailable, OperationalError, InterfaceError)):
        return True
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or (
        isinstance(cause, psycopg.Error) and cause.sqlstate in PASSING_CODES
    )


class DatabaseUnreachable(DatabaseUnavailable, OperationalError):
    """The database did not accept a connection; the message says why and what to do."""


class ChangedInTransaction(DatabaseError):
    """The identity changed inside a transaction, whose connection is logged in with the identity it began with."""


def unreachable_message(conn_params: dict[str, Any], reason: psycopg.OperationalError) -> str:
    address = f"{conn_params.get('host', 'localhost')}:{conn_params.get('port', 5432)}/{conn_params.get('dbname', '')}"
    return (
        f"The database at {address} does not accept a connection: {str(reason).partition(chr(10))[0]}. "
        "Check DATABASE_URL (or leave it empty for the embedded PostgreSQL) and that the server runs."
    )


def missing_migrations() -> list[str]:
    """Return the names of the migrations that the database lacks, in their order."""
    executor = MigrationExecutor(connection)
    return [str(migration) for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
