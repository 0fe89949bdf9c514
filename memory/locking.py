"""One worker at a time writes what is derived from a conversation."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

LOCK_CLASS = 7_201  # the first key of these advisory locks


@contextmanager
def derivation_lock(conversation_id: int) -> Iterator[bool]:
    """Whether the lock is held, at once. It dies with its connection, so that a killed worker leaves none."""
    keys = [LOCK_CLASS, conversation_id % 2**31]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", keys)
        (held,) = cursor.fetchone()
        try:
            yield held
        finally:
            if held:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", keys)
