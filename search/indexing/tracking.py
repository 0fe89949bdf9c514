"""Records the current state of a source and its changed words, in the transaction that changes it."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from django.db import connection, transaction

from convmemory.core.sql import load_sql
from search.indexing.documents import drop_words, store_words
from search.models import SetAsidePassage, Source
from search.sources import SourceFacts


def put_source(facts: SourceFacts, *, first_changed: int | None) -> int:
    """Store a source's facts; with `first_changed`, also the words of its items from that one on. Return its id.

    Words are searchable once the transaction commits. Vectors are not: the items are marked as behind.
    """
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        values = asdict(facts)
        parameters: dict[str, Any] = {"first": first_changed}
        cursor.execute(load_sql("search.indexing", "put_source"), values | parameters)
        source_id, languages, is_new = cursor.fetchone()
        if first_changed is None:
            return int(source_id)
        source = Source(pk=source_id, languages=languages, **values)
        if not is_new:
            parameters = {"source": source_id, "version": facts.version, "first": first_changed}
            cursor.execute(load_sql("search.indexing", "mark_changed"), parameters)
            drop_words(source)
        store_words(source, first=first_changed, is_new=is_new)
    return int(source_id)


def drop_source(*, archive_id: int, kind: str, object_id: int, keeps_vectors: bool = False) -> None:
    """Delete a source and all rows derived from it.

    With `keeps_vectors` its passages' vectors are copied to a table that no search reads; otherwise such copies are
    deleted, too.
    """
    if keeps_vectors:
        vectors, parameters = vectors_of(archive_id=archive_id, kind=kind, object_id=object_id)
        with connection.cursor() as cursor:
            cursor.execute(load_sql("search.indexing", "set_aside").format(vectors=vectors), parameters)
    else:
        SetAsidePassage.objects.filter(archive_id=archive_id, kind=kind, object_id=object_id).delete()
    delete_sources(
        Source.objects.filter(archive_id=archive_id, kind=kind, object_id=object_id).values_list("pk", flat=True)
    )


def vectors_of(*, archive_id: int, kind: str, object_id: int) -> tuple[str, dict[str, Any]]:
    """Return the statement that selects the vectors of an object as rows of `SetAsidePassage`, and its parameters."""
    return load_sql("search.indexing", "vectors_of"), {"owner": archive_id, "kind": kind, "object": object_id}


def delete_sources(source_ids: Collection[int]) -> int:
    """Delete sources with their derived rows; return the number of rows."""
    deleted, _ = Source.objects.filter(pk__in=list(source_ids)).delete()
    return deleted
