"""What nodes say when a transaction ends, when they look at deferred constraints: the coordinator tells no cause."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db.utils import IntegrityError, InternalError
from psycopg.errors import Diagnostic

VIOLATION = "23"
"""How the codes of errors about constraints begin."""


@contextmanager
def named_as_they_are(connection: psycopg.Connection) -> Iterator[None]:
    """Within the block a commit that fails since a node saw a constraint violated raises IntegrityError."""
    violations: list[str] = []

    def note(said: Diagnostic) -> None:
        if (said.sqlstate or "").startswith(VIOLATION):
            violations.append(said.message_primary or "")

    connection.add_notice_handler(note)
    try:
        yield
    except InternalError as error:
        if violations:
            raise IntegrityError(violations[0]) from error
        raise
    finally:
        connection.remove_notice_handler(note)
