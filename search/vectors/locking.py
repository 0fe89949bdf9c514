"""One worker at a time writes what is derived from a source."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from convmemory.core.sql import load_sql

LOCK_CLASS = 7_201  # the first key of these advisory locks
BUILD_LOCK_CLASS = 7_202  # of those for a space that is built beside the active one
VECTORS_LOCK_CLASS = 1_000_000  # of those for the vectors in one space, whose number is added


@contextmanager
def derivation_lock(source_id: int, lock_class: int = LOCK_CLASS) -> Iterator[bool]:
    """Whether the lock is held, at once. It dies with its connection, so that a killed worker leaves none."""
    keys = [lock_class, source_id % 2**31]
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "try_lock"), keys)
        (held,) = cursor.fetchone()
        try:
            yield held
        finally:
            if held:
                cursor.execute(load_sql("search", "unlock"), keys)


def lock_vectors(source_id: int, space_id: int) -> None:
    """Wait until nobody else replaces vectors of this source in this space; held until the transaction ends.

    A task that still builds a space when it becomes the active one can meet another that indexes.
    """
    with connection.cursor() as cursor:
        keys = [VECTORS_LOCK_CLASS + space_id, source_id % 2**31]
        cursor.execute(load_sql("search", "lock_vectors"), keys)
