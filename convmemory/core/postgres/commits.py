"""Names the cause of a failed commit: nodes check deferred constraints then, and the coordinator does not say so."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db.utils import IntegrityError, InternalError
from psycopg.errors import Diagnostic

VIOLATION = "23"
"""The first digits of the codes of constraint violations."""


@contextmanager
def named_as_they_are(connection: psycopg.Connection) -> Iterator[None]:
    """Convert a commit failure in the block to IntegrityError if a node reported a violated constraint."""
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
