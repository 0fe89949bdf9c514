"""Locks: one worker at a time writes the rows derived from a source, and none while the source is being deleted."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, connection

from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import load_sql
from search.models import Source


@contextmanager
def derivation_lock(source_id: int, lock: AdvisoryLock = AdvisoryLock.INDEXING) -> Iterator[bool]:
    """Try to take the lock, without waiting. It ends with its connection, so that a killed worker leaves none
    behind."""
    keys = [lock, source_id % 2**31]
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "try_lock"), keys)
        (is_locked,) = cursor.fetchone()
        try:
            yield is_locked
        finally:
            if is_locked:
                cursor.execute(load_sql("search.vectors", "unlock"), keys)


class SourceGone(IntegrityError):
    """The source was deleted, or its object put into the trash: nothing of it is written."""


def lock_vectors(source_id: int, space_id: int) -> None:
    """Wait for other writers of vectors of this source in this space; the lock lasts until the transaction ends.

    A task that still builds a space when it becomes the active one can meet another that indexes. Raises: SourceGone.
    """
    number = source_id % 2**31
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("search.vectors", "lock_vectors_with_others"),
            [AdvisoryLock.WRITING, number, AdvisoryLock.VECTORS + space_id, number],
        )
    if not Source.objects.filter(pk=source_id, version__gt=0).exists():
        raise SourceGone


def locked(source: Source) -> Source | None:
    """Return the source's current row, locked against the transactions that store its messages or sections.

    None if it was deleted or put into the trash.
    """
    return Source.objects.select_for_update(no_key=True).filter(pk=source.pk, version__gt=0).first()


def lock_for_writing(source_id: int) -> None:
    """Wait while the source is being deleted; the lock lasts until the transaction ends.

    Call it before writing the first row.
    """
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "lock_with_others"), [AdvisoryLock.WRITING, source_id % 2**31])


def lock_for_deletion(source_id: int) -> None:
    """Wait for writers, and keep out others until the transaction ends.

    Call it before locking any row. Rows added during the deletion would make it fail.
    """
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "lock_vectors"), [AdvisoryLock.WRITING, source_id % 2**31])


@contextmanager
def unless_deleted(archive_id: int, source_id: int) -> Iterator[None]:
    """End the block quietly if its rows are refused because the source was deleted or trashed meanwhile."""
    try:
        yield
    except IntegrityError:
        if Source.objects.filter(pk=source_id, archive_id=archive_id, version__gt=0).exists():
            raise
